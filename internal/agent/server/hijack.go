package server

import (
	"bufio"
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
)

// connections are those that streams have taken over from the HTTP server.
type connections struct {
	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

func newConnections() *connections { return &connections{open: map[net.Conn]struct{}{}} }

// add reports whether the connection may be used.
func (c *connections) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.open[conn] = struct{}{}
	}
	return !c.closed
}

func (c *connections) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// close cuts them; no others may come.
func (c *connections) close() {
	c.mu.Lock()
	c.closed = true
	open := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, conn := range open {
		conn.Close()
	}
}

// upgraded is a response whose connection may be taken over; gone is called when its
// client is gone, which the HTTP server does not see any more.
type upgraded struct {
	http.ResponseWriter
	taken *connections
	gone  context.CancelFunc
}

// Hijack takes the connection over.
func (u *upgraded) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w := &watched{Conn: conn, reader: buffered.Reader, gone: u.gone, taken: u.taken}
	if !u.taken.add(w) {
		conn.Close()
		return nil, nil, http.ErrServerClosed
	}
	return w, bufio.NewReadWriter(bufio.NewReader(w), bufio.NewWriter(w)), nil
}

// watched tells when it ends: somebody reads from it all the time.
type watched struct {
	net.Conn
	// reader has what was read of the connection before it was taken over.
	reader *bufio.Reader
	gone   context.CancelFunc
	taken  *connections
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.reader.Read(p)
	if err != nil {
		w.gone()
	}
	return n, err
}

func (w *watched) Close() error {
	w.gone()
	w.taken.remove(w)
	return w.Conn.Close()
}
