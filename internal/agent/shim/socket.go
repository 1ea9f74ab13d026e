package shim

import (
	"context"
	"net"
)

func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}

func listenSocket(path string) (net.Listener, error) {
	var l net.ListenConfig
	return l.Listen(context.Background(), "unix", path)
}
