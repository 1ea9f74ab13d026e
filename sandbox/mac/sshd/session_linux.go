package sshd

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// Session is one command to run.
type Session struct {
	User string
	// Command is empty for a login shell.
	Command string
	// Env is what the client asked for with env requests, name=value.
	Env []string
	// Client and Server are "address port" pairs.
	Client, Server string
	// Files are the command's standard streams; Start uses them before it
	// returns and does not close them.
	Files [3]*os.File
	// Terminal is set when Files are a terminal.
	Terminal bool
}

// Running is a started command.
type Running interface {
	// Done is closed once the command has ended.
	Done() <-chan struct{}
	// Wait returns how it ended.
	Wait() syscall.WaitStatus
	// SignalGroup signals the command and what it started.
	SignalGroup(sig syscall.Signal)
}

// session serves one channel: requests until exec or shell, then the command.
// With cut, the connection ends where the command's exit status would follow.
func (s *Server) session(ctx context.Context, conn *ssh.ServerConn, channel ssh.Channel, reqs <-chan *ssh.Request, cut bool) {
	defer channel.Close()
	sess := Session{
		User:   conn.User(),
		Client: addressPair(conn.RemoteAddr().String()),
		Server: addressPair(conn.LocalAddr().String()),
	}
	var tty *terminal
	for r := range reqs {
		ok := false
		switch r.Type {
		case "env":
			var v struct{ Name, Value string }
			if ok = ssh.Unmarshal(r.Payload, &v) == nil; ok {
				sess.Env = append(sess.Env, v.Name+"="+v.Value)
			}
		case "pty-req":
			if t, err := openTerminal(r.Payload); err == nil && tty == nil {
				tty, ok = t, true
				defer t.close()
				sess.Env = append(sess.Env, "TERM="+t.term)
			}
		case "exec", "shell":
			var v struct{ Command string }
			if r.Type == "exec" && ssh.Unmarshal(r.Payload, &v) != nil {
				break
			}
			sess.Command = v.Command
			reply(r, true)
			tell := sendExit
			if cut {
				tell = func(ssh.Channel, syscall.WaitStatus) { _ = conn.Close() }
			}
			s.run(ctx, sess, tty, channel, reqs, tell)
			return
		}
		reply(r, ok)
	}
}

func reply(r *ssh.Request, ok bool) {
	if r.WantReply {
		_ = r.Reply(ok, nil)
	}
}

// run starts the command, serves the channel until the command has ended and
// its output is drained, and tells how; it kills the command when the client
// goes away first.
func (s *Server) run(
	ctx context.Context, sess Session, tty *terminal, channel ssh.Channel, reqs <-chan *ssh.Request,
	tell func(ssh.Channel, syscall.WaitStatus),
) {
	streams, err := connect(tty)
	if err != nil {
		s.o.Log("sshd: " + err.Error())
		return
	}
	sess.Files, sess.Terminal = streams.child, tty != nil
	p, err := s.o.Start(sess)
	streams.closeChild()
	if err != nil {
		s.o.Log("sshd: " + err.Error())
		fmt.Fprintln(channel.Stderr(), err)
		streams.close()
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{255}))
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		serveRequests(reqs, p, tty)
	}()
	drained := streams.pump(channel)
	ended := p.Done()
	for ended != nil || drained != nil {
		select {
		case <-ended:
			ended = nil
		case <-drained:
			drained = nil
		case <-gone:
			p.SignalGroup(syscall.SIGKILL)
			streams.close()
			p.Wait()
			return
		case <-ctx.Done():
			p.SignalGroup(syscall.SIGKILL)
			streams.close()
			p.Wait()
			return
		}
	}
	tell(channel, p.Wait())
	streams.close()
}

func serveRequests(reqs <-chan *ssh.Request, p Running, tty *terminal) {
	for r := range reqs {
		ok := false
		switch r.Type {
		case "signal":
			var v struct{ Name string }
			if ssh.Unmarshal(r.Payload, &v) == nil {
				sig, known := signals()[v.Name]
				if ok = known; ok {
					p.SignalGroup(sig)
				}
			}
		case "window-change":
			ok = tty.resize(r.Payload)
		}
		reply(r, ok)
	}
}

func sendExit(channel ssh.Channel, status syscall.WaitStatus) {
	if !status.Signaled() {
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status.ExitStatus())}))
		return
	}
	name := "TERM"
	for n, sig := range signals() {
		if sig == status.Signal() {
			name = n
		}
	}
	_, _ = channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
		Name     string
		Core     bool
		Msg, Tag string
	}{name, status.CoreDump(), "", ""}))
}

// signals are the names RFC 4254 section 6.10 gives.
func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM, "FPE": syscall.SIGFPE, "HUP": syscall.SIGHUP,
		"ILL": syscall.SIGILL, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE,
		"QUIT": syscall.SIGQUIT, "SEGV": syscall.SIGSEGV, "TERM": syscall.SIGTERM,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	}
}

// streams join a channel and the standard streams of a command. Without a
// terminal they are three pipes; with one, both ends belong to the terminal.
type streams struct {
	child [3]*os.File
	in    *os.File
	out   []*os.File
	tty   *terminal
	once  sync.Once
}

func connect(tty *terminal) (*streams, error) {
	if tty != nil {
		return &streams{child: [3]*os.File{tty.slave, tty.slave, tty.slave}, in: tty.master, out: []*os.File{tty.master}, tty: tty}, nil
	}
	s := &streams{out: make([]*os.File, 2)}
	var err error
	if s.child[0], s.in, err = os.Pipe(); err == nil {
		if s.out[0], s.child[1], err = os.Pipe(); err == nil {
			s.out[1], s.child[2], err = os.Pipe()
		}
	}
	if err != nil {
		s.closeChild()
		s.close()
		return nil, fmt.Errorf("making pipes: %w", err)
	}
	return s, nil
}

// pump copies in both directions and returns a channel that closes when the
// command and all that inherited its output have closed it.
func (s *streams) pump(channel ssh.Channel) <-chan struct{} {
	go func() {
		_, _ = io.Copy(s.in, channel)
		if s.tty == nil {
			_ = s.in.Close()
		}
	}()
	var wg sync.WaitGroup
	to := []io.Writer{channel, channel.Stderr()}
	for i, f := range s.out {
		wg.Go(func() { _, _ = io.Copy(to[i], f) })
	}
	drained := make(chan struct{})
	go func() {
		wg.Wait()
		_ = channel.CloseWrite()
		close(drained)
	}()
	return drained
}

func (s *streams) closeChild() {
	for _, f := range s.child {
		_ = f.Close() // closing the terminal twice more, or nil, is harmless
	}
}

func (s *streams) close() {
	s.once.Do(func() {
		for _, f := range append(s.out, s.in) {
			_ = f.Close()
		}
	})
}

// addressPair turns "a:p" into the "a p" form of SSH_CONNECTION.
func addressPair(s string) string {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == ':' {
			return s[:i] + " " + s[i+1:]
		}
	}
	return s
}
