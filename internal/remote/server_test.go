package remote

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
)

// bySignal is what a handler returns for a command that SIGTERM ended.
const bySignal = -2

// server is an SSH server for one test.
type server struct {
	t        *testing.T
	listener net.Listener
	config   *ssh.ServerConfig
	hostKey  ssh.Signer
	// wrap, when set, stands between the network and SSH.
	wrap func(net.Conn) net.Conn
	// handle runs a command and returns its exit code; below zero ends the channel
	// without one, and bySignal with the word of a signal.
	handle func(command string, channel ssh.Channel) int

	accepted atomic.Int64
	mu       sync.Mutex
	commands []string
	// terminals are the requests for one, and of its sizes.
	terminals chan *ssh.Request
	started   sync.Once
	execs     sync.WaitGroup
	conns     sync.WaitGroup
}

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// newServer listens and lets the one key in. Change its fields before dialling.
func newServer(t *testing.T, client ssh.Signer) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, listener: listener, hostKey: newSigner(t), terminals: make(chan *ssh.Request, 2)}
	s.config = &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) != string(client.PublicKey().Marshal()) {
				return nil, errors.New("unknown key")
			}
			return nil, nil
		},
	}
	s.config.AddHostKey(s.hostKey)
	t.Cleanup(func() {
		_ = listener.Close()
		s.conns.Wait()
		s.execs.Wait()
	})
	return s
}

func (s *server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.accepted.Add(1)
		s.conns.Go(func() { s.serve(conn) })
	}
}

func (s *server) serve(conn net.Conn) {
	raw := conn
	if s.wrap != nil {
		conn = s.wrap(raw)
	}
	if conn == nil {
		_ = raw.Close()
		return
	}
	defer func() { _ = conn.Close() }()
	_, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go s.session(channel, requests)
	}
}

func (s *server) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	for r := range requests {
		var p struct{ Command string }
		switch r.Type {
		case "exec", "shell":
		case "pty-req", "window-change":
			s.terminals <- r
			_ = r.Reply(true, nil)
			continue
		default:
			_ = r.Reply(false, nil)
			continue
		}
		_ = ssh.Unmarshal(r.Payload, &p)
		s.mu.Lock()
		s.commands = append(s.commands, p.Command)
		s.mu.Unlock()
		_ = r.Reply(true, nil)
		s.execs.Go(func() {
			code := s.handle(p.Command, channel)
			switch {
			case code >= 0:
				_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
			case code == bySignal:
				_, _ = channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
					Name      string
					Core      bool
					Text, Tag string
				}{Name: "TERM"}))
			}
			_ = channel.Close()
		})
	}
}

// seen are the commands that were run.
func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.commands...)
}

func (s *server) target(key ssh.Signer) Target {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		s.t.Fatal(err)
	}
	return Target{
		Address: host, Port: n, User: "m1", Key: key,
		Pin: Pin{Algorithm: ssh.KeyAlgoED25519, SHA256: ssh.FingerprintSHA256(s.hostKey.PublicKey())},
	}
}

// reach starts to serve and dials.
func (s *server) reach(ctx context.Context, to Target) (*Session, error) {
	s.started.Do(func() { s.conns.Go(s.accept) })
	return Dial(ctx, to)
}

// dial logs in to the server.
func (s *server) dial(key ssh.Signer) *Session {
	s.t.Helper()
	session, err := s.reach(s.t.Context(), s.target(key))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = session.Close() })
	return session
}

// answering is a handler that says the same to everything.
func answering(stdout, stderr string, code int) func(string, ssh.Channel) int {
	return func(_ string, c ssh.Channel) int {
		_, _ = io.Copy(io.Discard, c)
		_, _ = io.WriteString(c, stdout)
		_, _ = io.WriteString(c.Stderr(), stderr)
		return code
	}
}

// running is a handler that runs commands in a real shell.
func running(change func(string) string, env ...string) func(string, ssh.Channel) int {
	return func(command string, c ssh.Channel) int {
		cmd := exec.Command("/bin/sh", "-c", change(command))
		cmd.Env = env
		in, err := cmd.StdinPipe()
		if err != nil {
			return 255
		}
		cmd.Stdout, cmd.Stderr = c, c.Stderr()
		if err := cmd.Start(); err != nil {
			return 255
		}
		go func() {
			_, _ = io.Copy(in, c)
			_ = in.Close()
		}()
		// The exit code is all that counts; a command killed by a signal has -1.
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
}

// cutting ends a connection after it has carried so many bytes to the server.
type cutting struct {
	net.Conn
	left *atomic.Int64
}

func (c cutting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left.Add(int64(-n)) < 0 {
		_ = c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func TestEveryPhaseOfReachingHasItsError(t *testing.T) {
	key := newSigner(t)
	other := newSigner(t)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.Close()
	phase := func(want Phase) func(error) bool {
		return func(err error) bool {
			var e *Unreachable
			return errors.As(err, &e) && e.Phase == want
		}
	}
	for name, c := range map[string]struct {
		arrange func(*server, *Target)
		is      func(error) bool
	}{
		"nobody listens": {
			func(_ *server, to *Target) { to.Port = dead.Addr().(*net.TCPAddr).Port }, phase(PhaseDial),
		},
		"closed at once": {
			func(s *server, _ *Target) { s.wrap = func(net.Conn) net.Conn { return nil } }, phase(PhaseHandshake),
		},
		"not SSH": {
			func(s *server, _ *Target) {
				s.wrap = func(c net.Conn) net.Conn {
					_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
					return nil
				}
			}, phase(PhaseHandshake),
		},
		"key refused": {
			func(_ *server, to *Target) { to.Key = other },
			func(err error) bool {
				var e *AuthRefused
				return errors.As(err, &e) && e.User == "m1"
			},
		},
		"closed while the key is checked": {
			func(s *server, _ *Target) {
				var conn net.Conn
				s.wrap = func(c net.Conn) net.Conn { conn = c; return c }
				s.config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
					_ = conn.Close()
					return nil, errors.New("locked")
				}
			}, phase(PhaseAuth),
		},
		"another host key": {
			func(_ *server, to *Target) { to.Pin.SHA256 = ssh.FingerprintSHA256(other.PublicKey()) },
			func(err error) bool {
				var e *HostKeyMismatch
				return errors.As(err, &e) && e.Want.SHA256 == ssh.FingerprintSHA256(other.PublicKey()) &&
					e.Got.Algorithm == ssh.KeyAlgoED25519 && e.Got.SHA256 != e.Want.SHA256
			},
		},
		"no host key of the pinned algorithm": {
			func(_ *server, to *Target) { to.Pin.Algorithm = ssh.KeyAlgoECDSA256 },
			func(err error) bool {
				var e *HostKeyMismatch
				return errors.As(err, &e) && e.Got == Pin{}
			},
		},
		"no pin": {
			func(_ *server, to *Target) { to.Pin = Pin{} },
			func(err error) bool { return errors.Is(err, ErrNotPinned) },
		},
		"first use refused": {
			func(_ *server, to *Target) {
				to.Pin = Pin{}
				to.FirstUse = func(context.Context, Pin) error { return context.Canceled }
			},
			func(err error) bool { return errors.Is(err, context.Canceled) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, key)
			to := s.target(key)
			c.arrange(s, &to)
			session, err := s.reach(t.Context(), to)
			if err == nil {
				_ = session.Close()
				t.Fatal("reached")
			}
			if !c.is(err) {
				t.Errorf("got %T: %v", err, err)
			}
		})
	}
}

func TestFirstUseSeesTheKeyBeforeTheLogin(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	var pinned, loggedIn atomic.Bool
	check := s.config.PublicKeyCallback
	s.config.PublicKeyCallback = func(c ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		loggedIn.Store(true)
		if !pinned.Load() {
			t.Error("our key is offered before the host key is recorded")
		}
		return check(c, k)
	}
	to := s.target(key)
	want := to.Pin
	to.Pin = Pin{}
	var got Pin
	to.FirstUse = func(_ context.Context, shown Pin) error {
		got = shown
		pinned.Store(true)
		return nil
	}
	session, err := s.reach(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	if got != want || session.HostKey() != want || !loggedIn.Load() {
		t.Errorf("shown %v, session %v, want %v", got, session.HostKey(), want)
	}
}

func TestSilenceEndsWithTheContext(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	silent := make(chan struct{})
	s.wrap = func(c net.Conn) net.Conn {
		close(silent)
		_, _ = io.Copy(io.Discard, c)
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-silent
		cancel()
	}()
	_, err := s.reach(ctx, s.target(key))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCommandsEndWithTheContext(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	started := make(chan struct{}, 8)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	s.handle = func(string, ssh.Channel) int {
		started <- struct{}{}
		<-over
		return -1
	}
	session := s.dial(key)
	for name, run := range map[string]func(context.Context) error{
		"probe":   func(ctx context.Context) error { _, err := session.Probe(ctx); return err },
		"leave":   func(ctx context.Context) error { _, err := session.Leave(ctx, testSigner()); return err },
		"receive": func(ctx context.Context) error { _, err := session.Receive(ctx, testBuild(t, 10)); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-started
			cancel()
		}()
		if err := run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
		cancel()
	}
}

func TestClosedSessionRunsNothing(t *testing.T) {
	key := newSigner(t)
	s := newServer(t, key)
	session := s.dial(key)
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := session.Probe(t.Context())
	var e *Unreachable
	if !errors.As(err, &e) || e.Phase != PhaseSession {
		t.Errorf("got %v", err)
	}
}

// answeringAtOnce is a handler that does not wait to be asked.
func answeringAtOnce(stdout string) func(string, ssh.Channel) int {
	return func(_ string, c ssh.Channel) int {
		_, _ = io.WriteString(c, stdout)
		return 0
	}
}
