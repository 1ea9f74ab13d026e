package shim

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// netcat is what guests have as nc: it says on stderr what fails, tells the other side of
// the end of its input, and ends with the connection. Of localhost it tries each address that
// macOS has for it, in its order.
func netcat(args []string) int {
	hosts := args[:1]
	if args[0] == "localhost" {
		hosts = []string{"::1", "127.0.0.1"}
	}
	var conn net.Conn
	var err error
	for _, host := range hosts {
		if conn, err = net.Dial("tcp", net.JoinHostPort(host, args[1])); err == nil {
			break
		}
		fmt.Fprintln(os.Stderr, "nc:", err)
	}
	if err != nil {
		return 1
	}
	fmt.Fprintln(os.Stderr, "nc: connected")
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, conn)
	return 0
}

// haveNetcat puts it where the shells of this test look.
func haveNetcat(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "nc")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// listenTCP serves each connection on a port of this host.
func listenTCP(t *testing.T, serve func(*net.TCPConn)) uint16 {
	t.Helper()
	return listenOn(t, "127.0.0.1", serve)
}

func listenOn(t *testing.T, address string, serve func(*net.TCPConn)) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(int(nobodysPort(t)))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}
