package server

import (
	"net"
	"sync"
	"sync/atomic"
)

// limitListener closes connections that are too many at once.
func limitListener(l net.Listener, most int64) net.Listener {
	return &limited{Listener: l, most: most}
}

type limited struct {
	net.Listener
	most int64
	open atomic.Int64
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) > l.most {
			l.open.Add(-1)
			conn.Close()
			continue
		}
		return &counted{Conn: conn, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	closed func()
}

func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}
