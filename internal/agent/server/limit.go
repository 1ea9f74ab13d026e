package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// limited is a listener with places for connections. Who is a stranger has one of few, and
// whoever comes then takes the place of another stranger. Who may be here moves to a place of
// their own.
type limited struct {
	net.Listener
	mostKnown, mostStrangers int

	mu sync.Mutex
	// strangers in the order in which they came.
	strangers []*counted
	known     int
}

func limitListener(l net.Listener, mostKnown, mostStrangers int) net.Listener {
	return &limited{Listener: l, mostKnown: mostKnown, mostStrangers: mostStrangers}
}

func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &counted{Conn: conn, in: l, from: networkOf(conn.RemoteAddr())}
	if out := l.enter(c); out != nil {
		_ = out.Close()
	}
	return c, nil
}

// enter returns whose place a stranger takes; nil: there was one.
func (l *limited) enter(c *counted) (out *counted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.strangers = append(l.strangers, c)
	if len(l.strangers) > l.mostStrangers {
		i := crowding(l.strangers)
		out = l.strangers[i]
		l.strangers = slices.Delete(l.strangers, i, i+1)
	}
	return out
}

// crowding is the one that came first of those from where most come from.
func crowding(strangers []*counted) int {
	from := map[netip.Prefix]int{}
	most := 0
	for _, c := range strangers {
		from[c.from]++
		most = max(most, from[c.from])
	}
	return slices.IndexFunc(strangers, func(c *counted) bool { return from[c.from] == most })
}

// networkOf is what one machine has at least: an address, or with IPv6 a network of them.
func networkOf(a net.Addr) netip.Prefix {
	var ip netip.Addr
	if tcp, ok := a.(*net.TCPAddr); ok {
		ip = tcp.AddrPort().Addr().Unmap()
	}
	network, _ := ip.Prefix(min(ip.BitLen(), 64)) // which fails for longer ones than there are
	return network
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	in   *limited
	from netip.Prefix
	// known and left are under the listener's lock.
	known, left bool
}

// Close gives the place back.
func (c *counted) Close() error {
	c.in.leave(c)
	return c.Conn.Close()
}

func (l *limited) leave(c *counted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.left:
	case c.known:
		l.known--
	default:
		l.strangers = slices.DeleteFunc(l.strangers, func(other *counted) bool { return other == c })
	}
	c.left = true
}

// admit reports whether there is a place for who is no stranger any more.
func (l *limited) admit(c *counted) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.known || c.left:
		return true
	case l.known >= l.mostKnown:
		return false
	}
	l.strangers = slices.DeleteFunc(l.strangers, func(other *counted) bool { return other == c })
	l.known++
	c.known = true
	return true
}

// connKey is where the context of a request has its connection.
type connKey struct{}

// withConn is a http.Server's ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, conn)
}

// admitted reports whether there is a place for the connection of a request that may be made.
func admitted(ctx context.Context) bool {
	c, ok := ctx.Value(connKey{}).(*counted)
	return !ok || c.in.admit(c)
}
