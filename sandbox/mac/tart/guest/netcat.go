package guest

import (
	"context"
	"fmt"
	"io"
	"net"
)

const (
	ncFailed = 1
	ncUsage  = 64
)

// Netcat is macOS' nc as far as it is modelled: "nc HOST PORT" and "nc -l PORT". The end
// of the input closes one direction of the connection; the end of what the other side
// sends ends the program. A connection that is refused ends it in silence, with 1. Of
// localhost it tries ::1 first, then 127.0.0.1, as macOS resolves it.
func Netcat(args []string, in io.Reader, out, complain io.Writer) int {
	var conn net.Conn
	var err error
	switch {
	case len(args) == 2 && args[0] == "-l":
		conn, err = acceptOne(net.JoinHostPort("", args[1]))
	case len(args) == 2 && args[0] != "" && args[0][0] != '-':
		conn, err = connect(args[0], args[1])
	default:
		_, _ = fmt.Fprintf(complain, "nc: not modelled: %q\n", args)
		return ncUsage
	}
	if err != nil {
		return ncFailed
	}
	defer conn.Close() //nolint:errcheck // all was sent or cannot be
	go func() {
		_, _ = io.Copy(conn, in)
		if half, is := conn.(interface{ CloseWrite() error }); is {
			_ = half.CloseWrite()
		}
	}()
	// Through a buffer: what the kernel moves by itself to a pipe whose reader is slow keeps
	// a processor busy meanwhile.
	if _, err := io.Copy(struct{ io.Writer }{out}, struct{ io.Reader }{conn}); err != nil {
		return ncFailed
	}
	return 0
}

func connect(host, port string) (conn net.Conn, err error) {
	addresses := []string{host}
	if host == "localhost" {
		addresses = []string{"::1", "127.0.0.1"}
	}
	for _, address := range addresses {
		conn, err = (&net.Dialer{}).DialContext(context.Background(), "tcp", net.JoinHostPort(address, port))
		if err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func acceptOne(address string) (net.Conn, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	defer listener.Close() //nolint:errcheck // one was accepted
	return listener.Accept()
}
