package remote

import (
	"context"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// sessionTimeout bounds the start of a command.
	sessionTimeout = 20 * time.Second
	// keepAlive is how often a silent connection is asked for a sign of life, and
	// how long it may take to give one.
	keepAlive = 15 * time.Second
)

// Session is one connection to a Mac. Its methods may be used one at a time.
type Session struct {
	client  *ssh.Client
	pin     Pin
	unwatch func() bool
	done    chan struct{}
	closing sync.Once

	// installed is the build that "current" is known to be, from Probe or from a
	// converge that succeeded.
	installed string
	// root is how this session becomes root, as far as it is known.
	root root
}

// root is a way to become root without a password.
type root int

const (
	rootUnknown root = iota
	rootByAnything
	// rootByAgent: for the verbs of the installed build only.
	rootByAgent
)

func newSession(client *ssh.Client, pin Pin, unwatch func() bool) *Session {
	s := &Session{client: client, pin: pin, unwatch: unwatch, done: make(chan struct{})}
	go s.stayAlive()
	return s
}

// HostKey is the key the Mac showed.
func (s *Session) HostKey() Pin { return s.pin }

// open starts a channel for one command. Where none comes in time, the connection
// is of no use and ends. It does not wait for the library to notice: one that is
// asked for a channel in the moment its connection ends may never answer.
func (s *Session) open(ctx context.Context) (*ssh.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	type answer struct {
		channel *ssh.Session
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		channel, err := s.client.NewSession()
		answers <- answer{channel, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, &Unreachable{Phase: PhaseSession, Err: a.err}
		}
		return a.channel, nil
	case <-ctx.Done():
		_ = s.client.Close()
		return nil, &Unreachable{Phase: PhaseSession, Err: ctx.Err()}
	}
}

// Close ends the connection. What still runs on the Mac may go on.
func (s *Session) Close() error {
	var err error
	s.closing.Do(func() {
		s.unwatch()
		close(s.done)
		err = s.client.Close()
	})
	return err
}

// stayAlive closes a connection that gives no sign of life, which nothing else
// would notice while a command runs in silence.
func (s *Session) stayAlive() {
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-ticker.C:
		}
		late := time.AfterFunc(keepAlive, func() { _ = s.client.Close() })
		_, _, err := s.client.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			return
		}
	}
}
