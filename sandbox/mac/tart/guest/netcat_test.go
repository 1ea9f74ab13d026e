package guest

import (
	"io"
	"net"
	"strings"
	"testing"
)

func TestNetcatTriesAllAddressesOfLocalhost(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		// A port that nobody has at either address.
		free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(free.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = free.Close()
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(address, port))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("from " + address))
			_ = conn.Close()
		}()
		var out strings.Builder
		if code := Netcat([]string{"localhost", port}, strings.NewReader(""), &out, io.Discard); code != 0 || out.String() != "from "+address {
			t.Errorf("%s: code %d, %q", address, code, out.String())
		}
		_ = l.Close()
		if code := Netcat([]string{"localhost", port}, strings.NewReader(""), io.Discard, io.Discard); code != ncFailed {
			t.Errorf("%s: nobody listens, and the code is %d", address, code)
		}
	}
}
