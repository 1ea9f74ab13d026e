package server

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// connections are those that streams have taken over from the HTTP server.
type connections struct {
	mu     sync.Mutex
	open   map[*watched]struct{}
	closed bool
}

func newConnections() *connections { return &connections{open: map[*watched]struct{}{}} }

// add reports whether the connection may be used.
func (c *connections) add(conn *watched) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.open[conn] = struct{}{}
	}
	return !c.closed
}

func (c *connections) remove(conn *watched) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// partingTimeout is how long streams that are to end have to tell their clients: a SPDY
// client takes a connection that is cut for a command that has succeeded.
const partingTimeout = 5 * time.Second

// close waits until they have ended, cuts those that have not in time, and lets no others
// come.
func (c *connections) close() {
	c.mu.Lock()
	c.closed = true
	open := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	soon := time.After(partingTimeout)
	for i, conn := range open {
		select {
		case <-conn.ended:
		case <-soon:
			for _, late := range open[i:] {
				late.cut()
			}
			return
		}
	}
}

// upgraded is a response whose connection may be taken over; gone is called when its
// client is gone, which the HTTP server does not see any more.
type upgraded struct {
	http.ResponseWriter
	taken *connections
	gone  context.CancelFunc
	// frames are judged before they are read, and cutOff is told why a client is that sends
	// others; nil: what it sends has no such frames.
	frames frames
	cutOff func(error)
	// conn is the connection, once it is taken over.
	conn *watched
}

// end closes the connection if it was taken over.
func (u *upgraded) end() {
	if u.conn != nil {
		_ = u.conn.Close()
	}
}

// Hijack takes the connection over.
func (u *upgraded) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w := &watched{Conn: conn, reader: buffered.Reader, frames: u.frames, gone: u.gone, taken: u.taken, ended: make(chan struct{})}
	if u.frames != nil {
		w.reader = newFrameReader(buffered.Reader, u.frames, u.cutOff)
	}
	if !u.taken.add(w) {
		conn.Close()
		return nil, nil, http.ErrServerClosed
	}
	u.conn = w
	return w, bufio.NewReadWriter(bufio.NewReader(w), bufio.NewWriter(w)), nil
}

// watched tells when it ends: somebody reads from it, or writes to it, now and then.
type watched struct {
	net.Conn
	// reader has what was read of the connection before it was taken over.
	reader io.Reader
	frames frames
	gone   context.CancelFunc
	taken  *connections
	// closing once is enough.
	closing sync.Once
	// ended is closed once the connection is, unless it was cut.
	ended chan struct{}
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.reader.Read(p)
	if err != nil {
		w.gone()
	}
	return n, err
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err != nil {
		w.gone()
	}
	return n, err
}

// lingerTimeout is how long what a client still sends is read, when we have said all:
// closing before would take what it has not read of our answer away from it, which may be
// megabytes where it is slow.
const lingerTimeout = 10 * time.Second

// Close tells the client, and closes when that has gone too, or soon.
func (w *watched) Close() error {
	w.gone()
	w.closing.Do(func() {
		// Also where a write of ours is stuck.
		_ = w.Conn.SetWriteDeadline(time.Now().Add(lingerTimeout))
		closeWrite(w.Conn)
		_ = w.Conn.SetReadDeadline(time.Now().Add(lingerTimeout))
		go func() {
			_, _ = io.Copy(io.Discard, w.Conn)
			w.taken.remove(w)
			w.Conn.Close()
			w.endFrames()
			close(w.ended)
		}()
	})
	return nil
}

// cut closes at once.
func (w *watched) cut() {
	w.gone()
	w.Conn.Close()
	w.endFrames()
}

func (w *watched) endFrames() {
	if w.frames != nil {
		w.frames.end()
	}
}
