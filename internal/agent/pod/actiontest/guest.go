// Package actiontest has a guest in memory for tests of probes and hooks: commands are
// functions, ports are listeners that need no network.
package actiontest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/agent/pod/action"
)

// ErrRefused is that of a port where nobody listens.
var ErrRefused = errors.New("connection refused")

// Guest is one. Its fields must be set before it is used.
type Guest struct {
	// Command runs a command. Nil: there are none.
	Command func(ctx context.Context, argv []string) (output string, exitCode int, err error)
	// Deaf is a port that takes no connection, nor refuses one.
	Deaf int
	// Starts is how long the guest takes to begin with a connection.
	Starts time.Duration

	mu    sync.Mutex
	ports map[string]*listener
	said  []string
}

var _ action.Runner = (*Guest)(nil)

// Exec runs Command.
func (g *Guest) Exec(ctx context.Context, argv []string) ([]byte, int, error) {
	g.mu.Lock()
	g.said = append(g.said, strings.Join(argv, " "))
	g.mu.Unlock()
	if g.Command == nil {
		return nil, 0, errors.New("no guest agent answers")
	}
	output, code, err := g.Command(ctx, argv)
	return []byte(output), code, err
}

// Commands are those that were run, in their order.
func (g *Guest) Commands() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.said...)
}

// Listen opens a port: of the guest itself where host is empty.
func (g *Guest) Listen(host string, port int) net.Listener {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ports == nil {
		g.ports = map[string]*listener{}
	}
	l := &listener{address: address(host, port), conns: make(chan net.Conn), closed: make(chan struct{})}
	g.ports[l.address] = l
	return l
}

func address(host string, port int) string { return fmt.Sprintf("%s:%d", host, port) }

// Connect connects to a listener, and hangs up.
func (g *Guest) Connect(ctx context.Context, host string, port int, within time.Duration) error {
	if err := g.start(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if g.Deaf != 0 && port == g.Deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	conn, err := g.connect(ctx, host, port)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Dial connects to a listener.
func (g *Guest) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	if err := g.start(ctx); err != nil {
		return nil, err
	}
	if g.Deaf != 0 && port == g.Deaf {
		near, _ := pipe()
		return near, nil
	}
	return g.connect(ctx, host, port)
}

func (g *Guest) start(ctx context.Context) error {
	select {
	case <-time.After(g.Starts):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *Guest) connect(ctx context.Context, host string, port int) (net.Conn, error) {
	g.mu.Lock()
	l := g.ports[address(host, port)]
	g.mu.Unlock()
	if l == nil {
		return nil, ErrRefused
	}
	near, far := pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, ErrRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func pipe() (near, far net.Conn) {
	near, far = net.Pipe()
	return timeless{near}, far
}

// timeless has no deadlines, as connections through a shim.
type timeless struct{ net.Conn }

func (timeless) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (timeless) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (timeless) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

type listener struct {
	address string
	conns   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return addr(l.address) }

type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }
