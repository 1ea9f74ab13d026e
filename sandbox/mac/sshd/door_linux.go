package sshd

import (
	"io"
	"net"
	"sync/atomic"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// Turn sets what is wrong with the door from now on. Whether the port is open
// at all, and which keys there are, is the caller's part of it.
func (s *Server) Turn(d wire.Door) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.door, s.left = d, d.Connections
}

// meet returns what is wrong for one more connection.
func (s *Server) meet() wire.Door {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.door
	if !d.Stall && !d.NoBanner && d.CutAfter == 0 && !d.CutBeforeExit || d.Connections == 0 {
		return d
	}
	if s.left == 0 {
		return wire.Door{}
	}
	s.left--
	return d
}

// stall says nothing until the client gives up.
func stall(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// cutConn closes a connection once so many bytes came from the client.
type cutConn struct {
	net.Conn
	left atomic.Int64
}

func newCutConn(conn net.Conn, after int64) *cutConn {
	c := &cutConn{Conn: conn}
	c.left.Store(after)
	return c
}

// Read hands on no more than what is left, and then nothing any more.
func (c *cutConn) Read(p []byte) (int, error) {
	left := c.left.Load()
	if left <= 0 {
		_ = c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), left)])
	c.left.Add(-int64(n))
	return n, err
}
