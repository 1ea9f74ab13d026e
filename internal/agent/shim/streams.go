package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// maxStreams is how many streams a shim has at the same time. reservedStreams are more
	// than that, for those of probes and hooks: people cannot take their places.
	maxStreams, reservedStreams = 200, 20
	// refusedSoon is how long a guest has to say that nobody listens on a port before the
	// connection of a probe counts as made. A later word of that comes when it is read.
	refusedSoon = 50 * time.Millisecond
	// startsWithin is how long the program of a connection may take to begin: then the
	// connection counts as made, too, so that nobody waits for ever.
	startsWithin = 30 * time.Second
)

// answerStream serves a request that is answered by a stream, and reports whether this
// was one.
func (c *commands) answerStream(conn net.Conn, from *bufio.Reader, q request) bool {
	serve := c.streamOf(q)
	if serve == nil {
		return false
	}
	leave, refused := c.enter(q.places())
	if refused != nil {
		c.send(conn, reply{Error: refused})
		return true
	}
	defer c.live.Done()
	s := &stream{link: newLink(conn, []kind{stdin}, []kind{stdout, stderr}), from: from, accept: func() { c.send(conn, reply{}) }}
	go func() {
		<-s.link.gone
		leave()
	}()
	// Who does not read must not hold up the end of the machine.
	defer context.AfterFunc(c.running, func() { s.link.stop(errMachineEnded) })()
	serve(s)
	return true
}

// stream is one that has a place, and no answer yet.
type stream struct {
	link *link
	from *bufio.Reader
	// accept answers that it is served.
	accept func()
}

// open has frames flow.
func (s *stream) open() {
	s.accept()
	go s.link.receive(s.from)
}

// refuse answers that it is not served.
func (s *stream) refuse(c *commands, r reply) {
	c.send(s.link.conn, r)
	s.link.cut(net.ErrClosed)
}

func (c *commands) streamOf(q request) func(*stream) {
	switch {
	case q.Exec != nil:
		return func(s *stream) { c.serveExec(s, *q.Exec) }
	case q.Attach != nil:
		return func(s *stream) { c.serveAttach(s, *q.Attach) }
	case q.Dial != nil:
		return func(s *stream) { c.serveDial(s, *q.Dial) }
	}
	return nil
}

// places are how many streams there may be with the one that is asked for.
func (q request) places() int {
	if q.Exec != nil && q.Exec.Tied || q.Dial != nil && q.Dial.Reserved {
		return maxStreams + reservedStreams
	}
	return maxStreams
}

// enter takes one of the places for a stream, and holds up the end of the shim until live is done.
func (c *commands) enter(places int) (leave func(), refused *refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, &refusal{Code: refusedEnded, Message: "the VM has ended"}
	case c.guest == nil:
		return nil, &refusal{Code: RefusedInvalid, Message: "it holds no guest that commands could run in"}
	case c.streaming >= places:
		return nil, &refusal{Code: refusedStreams, Message: fmt.Sprintf("it has %d streams, and takes no more", places)}
	}
	c.streaming++
	c.live.Add(1)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.streaming--
	}, nil
}

// ending is how a command of a stream ended.
func ending(code int, err error) *CommandEnd {
	end := &CommandEnd{Ended: time.Now(), Code: code}
	end.Outcome, end.Message = outcome(err)
	return end
}

// serveExec runs a command. With a terminal, that hangs up with the stream. Without, the
// command outlives it: what it prints then is thrown away.
func (c *commands) serveExec(s *stream, q execRequest) {
	if bad := (GuestRun{ID: "exec", Command: q.command()}).check(); bad != nil {
		s.refuse(c, reply{Error: &refusal{Code: bad.Code, Message: bad.Message}})
		return
	}
	s.open()
	ctx, cancel := context.WithCancel(c.running)
	defer cancel()
	if q.Tied || q.TTY {
		defer s.whenGone(cancel)()
	} else {
		defer s.whenGone(func() {
			forget := c.orphan(cancel)
			context.AfterFunc(ctx, forget)
		})()
	}
	streams := vm.Streams{Resize: s.link.sizes}
	held := false
	streams.Held = func() { held = true }
	if q.Stdin {
		streams.Stdin = s.link.in[stdin]
	}
	if q.Stdout {
		streams.Stdout = spilling{s.link.to(stdout)}
	}
	if q.Stderr {
		streams.Stderr = spilling{s.link.to(stderr)}
	}
	end := ending(c.guest.Exec(ctx, q.command(), streams))
	if held {
		end.Message = heldMessage
	}
	s.link.finish(reply{End: end})
}

// whenGone calls f once the caller is gone; the function it returns ends that.
func (s *stream) whenGone(f func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-s.link.gone:
			f()
		case <-done:
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}

// spilling throws away what cannot be written.
type spilling struct{ to io.Writer }

func (w spilling) Write(p []byte) (int, error) {
	_, _ = w.to.Write(p)
	return len(p), nil
}

// serveAttach copies the output of a command, and feeds its input.
func (c *commands) serveAttach(s *stream, q attachRequest) {
	cmd := c.find(q.ID)
	if cmd == nil {
		s.refuse(c, reply{Error: unknown(q.ID)})
		return
	}
	t := cmd.taps.open()
	defer cmd.taps.remove(t)
	s.open()
	defer s.whenGone(func() { cmd.taps.remove(t) })()
	go func() {
		if s.feed(cmd, q.Stdin) {
			t.end(errInputOver)
		}
	}()
	go s.resize(cmd)
	err := s.copy(t, q)
	switch {
	case errors.Is(err, ErrFellBehind):
		s.link.finish(reply{Error: &refusal{Code: refusedBehind, Message: err.Error()}})
		return
	case errors.Is(err, errInputOver):
		s.link.finish(reply{End: &CommandEnd{ID: q.ID, Outcome: Exited}})
		return
	}
	select {
	case <-cmd.ended:
		s.link.finish(reply{Error: cmd.refused, End: cmd.end})
	default:
		s.link.cut(err)
	}
}

// copy sends what the tap gets, until that ends or nobody takes it.
func (s *stream) copy(t *tap, q attachRequest) error {
	for {
		p, err := t.next()
		if err != nil {
			return err
		}
		if (p.kind == stdout && !q.Stdout) || (p.kind == stderr && !q.Stderr) {
			continue
		}
		if _, err := s.link.to(p.kind).Write(p.data); err != nil {
			return err
		}
	}
}

// errInputOver ends the stream of a caller that has no more input for a command which
// takes it from others after that: as container runtimes do, lest the caller waits for a
// command that waits for input.
var errInputOver = errors.New("its input is over, that of the command is not")

// feed passes input on to a command that has any, and reports whether the caller's ended
// before the command's.
func (s *stream) feed(cmd *command, asked bool) (over bool) {
	if cmd.input == nil || !asked {
		_, _ = io.Copy(io.Discard, s.link.in[stdin])
		return false
	}
	_, err := io.Copy(cmd.input, s.link.in[stdin])
	if cmd.StdinOnce {
		cmd.input.end()
		return false
	}
	return err == nil
}

func (s *stream) resize(cmd *command) {
	for {
		select {
		case size := <-s.link.sizes:
			newest(cmd.sizes, size)
		case <-s.link.gone:
			return
		}
	}
}

// portCommand connects to a port of the guest's own loopback. What the program says of
// itself is not the connection's. It prints one byte before: it runs.
func portCommand(q dialRequest) vm.GuestCommand {
	return vm.GuestCommand{
		Argv: []string{"/bin/sh", "-c", `printf . && exec nc "$1" "$2" 2>/dev/null`, "sh", q.loopback(), strconv.Itoa(int(q.Port))},
		Bare: true,
	}
}

// loopback is where to connect. Who forwards a port means localhost, of which nc tries each
// address: a server that listens on that name may have ::1 alone. A probe asks for what others
// would reach.
func (q dialRequest) loopback() string {
	if q.Reserved {
		return "127.0.0.1"
	}
	return "localhost"
}

// refusedWithin is how long is waited for a word that nobody listens. A probe wants to
// know; who forwards a port waits for nothing, as a client that speaks first would wait, too.
func (q dialRequest) refusedWithin() time.Duration {
	if q.Reserved {
		return refusedSoon
	}
	return 0
}

// serveDial is answered once anything came through the connection, or nobody said for a
// moment that there is none. The moment counts from when the program runs in the guest,
// which takes long on a busy Mac.
func (c *commands) serveDial(s *stream, q dialRequest) {
	ctx, cancel := context.WithCancel(c.running)
	defer cancel()
	defer s.whenGone(cancel)()
	out := &opening{to: s.link.to(stdout), refusedWithin: q.refusedWithin(), begun: make(chan struct{}), first: make(chan struct{}), open: make(chan struct{})}
	done := make(chan reply, 1)
	go func() {
		code, err := c.guest.Exec(ctx, portCommand(q), vm.Streams{Stdin: s.link.in[stdin], Stdout: out})
		done <- dialEnd(code, err, out.used())
	}()
	if end := out.await(done); end != nil {
		if end.Error != nil || end.End.Outcome != Exited {
			s.refuse(c, *end)
			return
		}
		done <- *end
	}
	s.open()
	close(out.open)
	s.link.finish(<-done)
}

// codeNotFound and the one below are a shell's for a program that it cannot execute.
const codeNotFound = 127

// dialEnd reads how the program of a connection ended.
func dialEnd(code int, err error, used bool) reply {
	switch {
	case err == nil && !used && (code == codeNotFound || code == codeNotFound-1):
		return reply{End: ending(0, fmt.Errorf("%w: it has no nc to connect to a port with", vm.ErrNotExecuted))}
	case err == nil && !used && code != 0:
		return reply{Error: &refusal{Code: refusedPort, Message: ErrPortRefused.Error()}}
	}
	return reply{End: ending(code, err)}
}

// opening tells when the program of a connection runs, and of the first bytes that come
// through; it lets none of them pass before it is open.
type opening struct {
	to                 io.Writer
	refusedWithin      time.Duration
	begun, first, open chan struct{}
	begin, once        sync.Once
}

func (o *opening) Write(p []byte) (int, error) {
	n := len(p)
	o.begin.Do(func() {
		close(o.begun)
		p = p[1:] // the program's own
	})
	if len(p) == 0 {
		return n, nil
	}
	o.once.Do(func() { close(o.first) })
	<-o.open
	if _, err := o.to.Write(p); err != nil {
		return 0, err
	}
	return n, nil
}

// await returns the end of a connection that is not to be made; nil: it counts as made.
func (o *opening) await(done <-chan reply) *reply {
	begun := o.begun
	soon := time.NewTimer(startsWithin)
	defer soon.Stop()
	for {
		select {
		case end := <-done:
			return &end
		case <-begun:
			begun = nil
			soon.Reset(o.refusedWithin)
		case <-o.first:
			return nil
		case <-soon.C:
			return nil
		}
	}
}

func (o *opening) used() bool {
	select {
	case <-o.first:
		return true
	default:
		return false
	}
}
