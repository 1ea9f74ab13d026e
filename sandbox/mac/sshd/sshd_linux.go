// Package sshd is the SSH front door of a simulated Mac: a real SSH server in
// the manner of macOS' sshd, with public keys only, host keys read for each
// connection, and exec and shell requests whose streams and exit codes are
// those of real processes. Where keys are kept, who may enter and how a
// process is started is left to the caller.
package sshd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// maxSessions is sshd's default MaxSessions, for each connection.
const maxSessions = 10

// maxConnections is how many sshd processes macOS' launchd runs at once.
const maxConnections = 42

// loginGrace is sshd's default LoginGraceTime.
const loginGrace = 120 * time.Second

// version is what the server calls itself; macOS 15 ships this OpenSSH.
const version = "SSH-2.0-OpenSSH_9.9"

var errRefused = errors.New("key refused")

// Options configure a Server. All functions are called from many goroutines.
type Options struct {
	// HostKeys returns the keys to offer on a new connection, making them
	// when there are none yet.
	HostKeys func() ([]ssh.Signer, error)
	// Authorized reports whether a key may log in as a user.
	Authorized func(user string, key ssh.PublicKey) bool
	// Configure changes what one connection is held to, and returns how long it
	// may take to log in; 0 means for ever. An error ends the connection. Nil
	// leaves sshd's defaults.
	Configure func(*ssh.ServerConfig) (loginGrace time.Duration, err error)
	// AccountOpen is asked after the key was accepted; false closes the
	// connection without another word, as for a locked account.
	AccountOpen func(user string) bool
	// Start runs one command.
	Start func(Session) (Running, error)
	// Log takes one line for whoever debugs.
	Log func(string)
}

// Server accepts SSH connections.
type Server struct {
	o     Options
	slots chan struct{}

	mu   sync.Mutex
	door wire.Door
	left int // connections that still meet the door's faults
	open map[net.Conn]struct{}
}

// New returns a server; Serve makes it work.
func New(o Options) *Server {
	return &Server{o: o, slots: make(chan struct{}, maxConnections), open: map[net.Conn]struct{}{}}
}

// HangUp ends all connections that are open, whatever they carry.
func (s *Server) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.open {
		_ = conn.Close()
	}
}

// keep has a connection end with HangUp, and returns how to let go of it.
func (s *Server) keep(conn net.Conn) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[conn] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, conn)
	}
}

// Serve accepts connections until the listener closes.
func (s *Server) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting a connection: %w", err)
		}
		select {
		case s.slots <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		go func() {
			defer func() { <-s.slots }()
			s.handle(conn)
		}()
	}
}

func (s *Server) handle(conn net.Conn) {
	defer conn.Close()
	defer s.keep(conn)()
	door := s.meet()
	switch {
	case door.NoBanner:
		return
	case door.Stall || door.QueueFull:
		stall(conn)
		return
	case door.CutAfter > 0:
		conn = newCutConn(conn, door.CutAfter)
	}
	config, grace, err := s.config()
	if err != nil {
		s.o.Log("sshd: " + err.Error())
		return
	}
	if err := limit(conn, grace); err != nil {
		return
	}
	sc, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	defer sc.Close()
	if err := conn.SetDeadline(time.Time{}); err != nil || !s.o.AccountOpen(sc.User()) {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go answerKeepalives(requests)
	var sessions sync.WaitGroup
	var open atomic.Int32
	for c := range channels {
		if c.ChannelType() != "session" {
			_ = c.Reject(ssh.UnknownChannelType, "only sessions are modelled")
			continue
		}
		if open.Load() >= maxSessions {
			_ = c.Reject(ssh.ConnectionFailed, "open failed")
			continue
		}
		channel, reqs, err := c.Accept()
		if err != nil {
			break
		}
		open.Add(1)
		sessions.Go(func() {
			defer open.Add(-1)
			s.session(ctx, sc, channel, reqs, door.CutBeforeExit)
		})
	}
	cancel()
	sessions.Wait()
}

func limit(conn net.Conn, grace time.Duration) error {
	if grace <= 0 {
		return nil
	}
	return conn.SetDeadline(time.Now().Add(grace))
}

// config is what one connection is held to, and how long its login may take.
func (s *Server) config() (*ssh.ServerConfig, time.Duration, error) {
	keys, err := s.o.HostKeys()
	if err != nil {
		return nil, 0, fmt.Errorf("host keys: %w", err)
	}
	c := &ssh.ServerConfig{
		ServerVersion: version,
		PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !s.o.Authorized(m.User(), key) {
				return nil, errRefused
			}
			return &ssh.Permissions{}, nil
		},
	}
	for _, k := range keys {
		c.AddHostKey(k)
	}
	grace := loginGrace
	if s.o.Configure != nil {
		if grace, err = s.o.Configure(c); err != nil {
			return nil, 0, err
		}
	}
	return c, grace, nil
}

// answerKeepalives refuses every global request with an answer, which is what
// a client that sends keepalives waits for.
func answerKeepalives(requests <-chan *ssh.Request) {
	for r := range requests {
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
}
