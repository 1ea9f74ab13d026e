package tart

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guest"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// shutdownPoll is how often a guest looks for the file that shuts it down.
const shutdownPoll = 20 * time.Millisecond

// guestSpec is all a guest knows of itself. It arrives as one line on stdin, which
// then stays open for as long as the machine has power.
type guestSpec struct {
	Name     string        `json:"name"`
	Root     string        `json:"root"` // its scratch directory
	Userland string        `json:"userland"`
	Hardware string        `json:"hardware"` // as DHCP knows it
	Program  string        `json:"program"`
	Shares   []guest.Share `json:"shares,omitempty"`
	// OwnNetwork: two guests may listen on one port.
	OwnNetwork bool          `json:"ownNetwork,omitempty"`
	BootDelay  time.Duration `json:"bootDelay"`
	// ShutdownGrace as the plan has it.
	ShutdownGrace time.Duration `json:"shutdownGrace"`
	NoLease       bool          `json:"noLease,omitempty"`
	StaleToo      bool          `json:"staleToo,omitempty"` // a wrong lease that looks newer
	Crash         bool          `json:"crash,omitempty"`
	Deaf          bool          `json:"deaf,omitempty"`     // does not shut down when asked to
	NoSocket      bool          `json:"noSocket,omitempty"` // nobody reaches its agent
	DHCP          dhcp          `json:"dhcp"`
	Agent         agentSpec     `json:"agent"`
}

// agentSpec is the guest agent of an image.
type agentSpec struct {
	Never      bool             `json:"never,omitempty"`
	Delay      time.Duration    `json:"delay,omitempty"` // after the lease
	Generation guest.Generation `json:"generation,omitempty"`
	Drops      int              `json:"drops,omitempty"` // so many commands lose their connection; -1: all
	DropName   string           `json:"dropName,omitempty"`
}

// guestLife is a guest as its own process sees it.
type guestLife struct {
	spec    guestSpec
	files   *os.Root // the scratch directory; no path leads there from the inside
	dhcp    *openDHCP
	inside  *guest.Inside
	socket  *vsock
	address atomic.Value // of string
}

// guestMain is the life of a guest. Its scratch directory stays its own when a clone
// takes the name away from it.
func guestMain(power io.Reader, complain io.Writer) int {
	shutdown := make(chan os.Signal, 1)
	signal.Notify(shutdown, syscall.SIGTERM)
	in := bufio.NewReader(power)
	g, err := bornGuest(in)
	if err != nil {
		_, _ = fmt.Fprintln(complain, err)
		return guestBroken
	}
	cut := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, in)
		cut <- err
	}()
	return g.live(cut, shutdown)
}

// bornGuest reads the specification and enters the guest.
func bornGuest(in *bufio.Reader) (*guestLife, error) {
	g := &guestLife{}
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("reading what the guest is: %w", err)
	}
	if err := json.Unmarshal(line, &g.spec); err != nil {
		return nil, fmt.Errorf("reading what the guest is: %w", err)
	}
	if g.files, err = os.OpenRoot("."); err != nil {
		return nil, fmt.Errorf("opening the guest's directory: %w", err)
	}
	if g.dhcp, err = g.spec.DHCP.open(); err != nil {
		return nil, err
	}
	if !guest.Supported() {
		return g, nil
	}
	if !g.spec.NoSocket {
		if g.socket, err = listenControl(".."); err != nil {
			return nil, err
		}
	}
	s := guest.System{
		Userland: g.spec.Userland, Disk: g.spec.Root + "/disk", Root: g.spec.Root + "/root", Shares: g.spec.Shares,
		Program: g.spec.Program, Extra: filepath.Join(g.spec.Userland, wire.GuestPrograms), OwnNetwork: g.spec.OwnNetwork,
		ShutdownGrace: g.spec.ShutdownGrace,
	}
	if g.inside, err = guest.Enter(s); err != nil {
		return nil, err
	}
	if !g.spec.NoSocket {
		go g.socket.accept()
	}
	return g, nil
}

func (g *guestLife) live(cut <-chan error, shutdown <-chan os.Signal) int {
	booted := time.NewTimer(g.spec.BootDelay)
	defer booted.Stop()
	agentUp := make(<-chan time.Time)
	look := time.NewTicker(shutdownPoll)
	defer look.Stop()
	for {
		select {
		case <-cut: //nolint:errcheck // any end of the pipe is the power cut
			return guestPanicked
		case <-shutdown:
			if !g.spec.Deaf {
				return unlessCut(cut, g.shutDown)
			}
		case <-look.C:
			if g.files.Remove("shutdown") == nil && !g.spec.Deaf {
				return unlessCut(cut, g.shutDown)
			}
		case <-booted.C:
			if err := g.comeUp(); err != nil {
				return guestPanicked
			}
			if g.socket != nil && !g.spec.Agent.Never {
				agentUp = time.After(g.spec.Agent.Delay)
			}
		case <-agentUp:
			go g.serve()
		}
	}
}

// unlessCut lets a guest shut down for as long as it has power.
func unlessCut(cut <-chan error, shutDown func()) int {
	down := make(chan struct{})
	go func() {
		defer close(down)
		shutDown()
	}()
	select {
	case <-down:
		return 0
	case <-cut: //nolint:errcheck // any end of the pipe is the power cut
		return guestPanicked
	}
}

func (g *guestLife) shutDown() {
	if g.inside == nil {
		return
	}
	if g.socket != nil {
		close(g.socket.down)
	}
	g.inside.ShutDown()
}

// comeUp is the end of the boot: a lease, then a running system.
func (g *guestLife) comeUp() error {
	if g.spec.Crash {
		return errors.New("the guest panics")
	}
	if !g.spec.NoLease {
		// A guest without an address runs all the same.
		ip, err := g.dhcp.grant(g.spec.Hardware, g.spec.DHCP.now(), g.spec.StaleToo)
		if err != nil {
			return err
		}
		g.address.Store(ip)
		if g.inside != nil && ip != "" {
			if err := g.inside.SetAddress(ip); err != nil {
				return err
			}
		}
	}
	return g.files.WriteFile("state", []byte("running\n"), 0o644)
}

// serve is the guest agent.
func (g *guestLife) serve() {
	drops := int64(g.spec.Agent.Drops)
	o := guest.AgentOptions{
		Generation: g.spec.Agent.Generation,
		Address: func() string {
			ip, _ := g.address.Load().(string)
			return ip
		},
	}
	if drops != 0 {
		var dropped atomic.Int64
		o.Drops = func(command string) bool {
			return matches(command, g.spec.Agent.DropName) && (dropped.Add(1) <= drops || drops < 0)
		}
	}
	_ = g.inside.Serve(g.socket.up(), o) // the guest lives without its agent
}

// vsock stands for the port of the guest agent: the control socket accepts whenever
// the machine runs, and what it accepts comes to nothing while no agent listens.
type vsock struct {
	net.Listener
	listens chan struct{} // closed when the agent is up
	conns   chan net.Conn
	closed  chan struct{}
	down    chan struct{} // closed when the system goes down
	once    sync.Once
}

func listenControl(dir string) (*vsock, error) {
	path := dir + "/control.sock" // relative: the length of a socket's path is limited
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("removing an old control socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("opening the control socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	return &vsock{Listener: l, listens: make(chan struct{}), conns: make(chan net.Conn), closed: make(chan struct{}), down: make(chan struct{})}, nil
}

func (v *vsock) accept() {
	for {
		conn, err := v.Listener.Accept()
		if err != nil {
			return
		}
		select {
		case <-v.listens:
			go v.connect(conn)
		default:
			_ = conn.Close()
		}
	}
}

// connect has the guest agent accept a client.
func (v *vsock) connect(client net.Conn) {
	ours, theirs, err := line()
	if err != nil {
		_ = client.Close()
		return
	}
	select {
	case v.conns <- theirs:
		relay(client, ours, v.down)
	case <-v.closed:
		_, _, _ = client.Close(), ours.Close(), theirs.Close()
	}
}

// up is the agent starting to listen.
func (v *vsock) up() net.Listener {
	close(v.listens)
	return v
}

// Accept returns the next connection that found an agent.
func (v *vsock) Accept() (net.Conn, error) {
	select {
	case conn := <-v.conns:
		return conn, nil
	case <-v.closed:
		return nil, net.ErrClosed
	}
}

// Close is the agent listening no more.
func (v *vsock) Close() error {
	v.once.Do(func() { close(v.closed) })
	return v.Listener.Close()
}
