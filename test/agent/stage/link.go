package stage

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// Link is the network between one Mac and the API server. It can be cut so that
// connections are refused, or so that nothing comes through any more.
type Link struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	mode   linkMode
	conns  map[net.Conn]bool
	mended chan struct{} // closed while bytes may pass
	wait   sync.WaitGroup
}

type linkMode int

const (
	linkOpen linkMode = iota
	linkRefuses
	linkSwallows
)

// newLink listens on a free port of the loopback interface.
func newLink(ctx context.Context, target string) (*Link, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a link to the API server: %w", err)
	}
	link := &Link{listener: l, target: target, conns: map[net.Conn]bool{}, mended: make(chan struct{})}
	close(link.mended)
	link.wait.Go(link.serve)
	return link, nil
}

// Address is what the Mac dials.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Cut ends all connections and refuses new ones, as an API server does that is down.
func (l *Link) Cut() { l.turn(linkRefuses) }

// Swallow lets connections stand and nothing through them, as a broken network does.
func (l *Link) Swallow() { l.turn(linkSwallows) }

// Mend makes it whole again. Connections that were swallowed go on.
func (l *Link) Mend() { l.turn(linkOpen) }

func (l *Link) turn(mode linkMode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode == mode {
		return
	}
	if l.mode == linkSwallows {
		close(l.mended)
	}
	if mode == linkSwallows {
		l.mended = make(chan struct{})
	}
	if mode == linkRefuses {
		l.hangUp()
	}
	l.mode = mode
}

// hangUp needs the lock.
func (l *Link) hangUp() {
	for c := range l.conns {
		_ = c.Close()
	}
}

func (l *Link) close() {
	l.turn(linkRefuses)
	_ = l.listener.Close()
	l.wait.Wait()
}

func (l *Link) serve() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.wait.Go(func() { l.carry(c) })
	}
}

// carry joins one connection with one to the API server.
func (l *Link) carry(c net.Conn) {
	defer l.drop(c)
	if !l.keep(c) {
		return
	}
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer l.drop(server)
	if !l.keep(server) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{server, c}, {c, server}} {
		both.Go(func() {
			_, _ = io.Copy(gated{way[0], l}, way[1])
			_ = way[0].Close()
		})
	}
	both.Wait()
}

func (l *Link) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	return l.mode != linkRefuses
}

func (l *Link) drop(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// gated holds bytes back while the link swallows them.
type gated struct {
	net.Conn
	link *Link
}

func (g gated) Write(p []byte) (int, error) {
	g.link.mu.Lock()
	mended := g.link.mended
	g.link.mu.Unlock()
	<-mended
	return g.Conn.Write(p)
}
