package scaleway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Listener is a vendor on a loopback address.
type Listener struct {
	server *http.Server
	url    string
	done   chan error
}

// ErrNotLoopback refuses an address that others could reach: the control API has
// no authentication.
var ErrNotLoopback = errors.New("not a loopback address")

// Listen serves a vendor on an address such as 127.0.0.1:0, where 0 picks a free port.
func Listen(ctx context.Context, v *Vendor, address string) (*Listener, error) {
	var config net.ListenConfig
	socket, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for the vendor API: %w", err)
	}
	if tcp, fine := socket.Addr().(*net.TCPAddr); !fine || !tcp.IP.IsLoopback() {
		_ = socket.Close()
		return nil, fmt.Errorf("listening on %s: %w", address, ErrNotLoopback)
	}
	l := &Listener{
		server: &http.Server{Handler: v, ReadHeaderTimeout: 10 * time.Second},
		url:    "http://" + socket.Addr().String(),
		done:   make(chan error, 1),
	}
	go func() { l.done <- l.server.Serve(socket) }()
	return l, nil
}

// URL is what SCW_API_URL is set to.
func (l *Listener) URL() string { return l.url }

// Close stops listening and cuts the connections there are. The vendor goes on.
func (l *Listener) Close() error {
	closed := l.server.Close()
	if err := <-l.done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the vendor API: %w", err)
	}
	return closed
}
