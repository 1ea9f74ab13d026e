package shim

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// Dial connects to a TCP port of the guest's own loopback. The connection has CloseWrite,
// and no deadlines. Where nobody listens, Read fails with ErrPortRefused in the end, or
// this does. It returns once the guest runs what connects, and ctx ends only the wait for
// that. Other errors are those of Exec.
func Dial(ctx context.Context, dir string, port uint16) (net.Conn, error) {
	return dialIn(ctx, dir, dialRequest{Port: port})
}

// DialReserved is Dial for a probe or a hook: it has a place though people have taken all,
// and fails itself where nobody listens, unless the guest takes long to say so.
func DialReserved(ctx context.Context, dir string, port uint16) (net.Conn, error) {
	return dialIn(ctx, dir, dialRequest{Port: port, Reserved: true})
}

func dialIn(ctx context.Context, dir string, q dialRequest) (net.Conn, error) {
	a, err := askFor(ctx, dir, request{V: version, Dial: &q}, answerPatience)
	if err != nil {
		return nil, err
	}
	if a.reply.End != nil {
		return nil, errors.Join(a.reply.End.err(), a.conn.Close())
	}
	l := newLink(a.conn, []kind{stdout}, []kind{stdin})
	go l.receive(a.from)
	return &portConn{link: l, port: q.Port}, nil
}

// portConn is a connection to a port of a guest.
type portConn struct {
	link *link
	port uint16
}

// Read returns what the guest sent; io.EOF after its end, ErrPortRefused where nobody
// listens.
func (c *portConn) Read(p []byte) (int, error) {
	n, err := c.link.in[stdout].Read(p)
	if errors.Is(err, io.EOF) {
		err = c.end()
	}
	return n, err
}

// end is what a reader gets in the end.
func (c *portConn) end() error {
	<-c.link.gone
	end, err := c.link.told()
	if err != nil {
		return err
	}
	if err := end.err(); err != nil {
		return err
	}
	return io.EOF
}

// Write waits for the guest to take it. One that fails leaves it to Read to say why.
func (c *portConn) Write(p []byte) (int, error) {
	n, err := c.link.to(stdin).Write(p)
	if err != nil {
		// The shim is gone, and its last word may still be unread: who closes now loses it.
		<-c.link.gone
	}
	return n, err
}

// CloseWrite tells the guest that no more will come, and leaves its way back open.
func (c *portConn) CloseWrite() error { return c.link.send(stdinEnd, nil) }

// Close ends the connection.
func (c *portConn) Close() error {
	c.link.cut(net.ErrClosed)
	return nil
}

// LocalAddr names no address: this side has none.
func (c *portConn) LocalAddr() net.Addr { return portAddr(0) }

// RemoteAddr is the port in the guest.
func (c *portConn) RemoteAddr() net.Addr { return portAddr(c.port) }

// SetDeadline is not possible.
func (c *portConn) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline is not possible.
func (c *portConn) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline is not possible.
func (c *portConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// portAddr is a port of a guest's own loopback.
type portAddr uint16

// Network is that of the guest.
func (portAddr) Network() string { return "guest" }

func (a portAddr) String() string {
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(a)}).String()
}

var _ interface {
	net.Conn
	CloseWrite() error
} = (*portConn)(nil)
