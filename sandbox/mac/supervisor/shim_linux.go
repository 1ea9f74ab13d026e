package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/sandbox/mac/process"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

const (
	// wrongPasswordDelay is how long macOS lets a failed verification take.
	wrongPasswordDelay = 2 * time.Second
	// shutdownDelay passes between shutdown's call and the end of SSH's connections
	// and SIGTERM for all, powerOffDelay between that and the cut.
	shutdownDelay = time.Second
	powerOffDelay = time.Second
	// lastWords is what passes at least before connections end, however fast the
	// Mac's clock is: what was printed by then is copied at this machine's own pace.
	lastWords = 300 * time.Millisecond
	// killedRC is recorded for a shim that went away without saying goodbye.
	killedRC = 128 + int(syscall.SIGKILL)
	// Exit codes of a shell for what it cannot execute and cannot find.
	cannotExecuteRC = 126
	notFoundRC      = 127
)

// shim is pid 1's side of one running shim.
type shim struct {
	p    *pid1
	conn *wire.Packets
	who  wire.Hello
	// child is what sudo or env had us run; it goes when they do.
	child *process.Process
	// guest is the name of the guest whose power this connection is.
	guest string
}

// serveShim answers one shim for its whole life.
func (p *pid1) serveShim(conn *wire.Packets) {
	s := &shim{p: p, conn: conn}
	defer conn.Close()
	defer s.leaveNetwork()
	for s.next() {
	}
}

// next handles one message and reports whether to go on.
func (s *shim) next() bool {
	var c wire.Call
	files, err := s.conn.Receive(&c)
	defer closeFiles(files)
	switch {
	case err != nil:
		s.gone()
		return false
	case c.Exit != nil:
		s.p.record(*c.Exit)
		_ = s.conn.Send(wire.Answer{})
		return false
	case c.Signal != 0:
		if s.child != nil {
			s.child.SignalGroup(syscall.Signal(c.Signal))
		}
		return true
	case c.Run != nil:
		return s.run(*c.Run, files)
	case c.Shutdown != "" && !s.p.quirk().IgnoresShutdown:
		go s.p.shutdown(c.Shutdown) // no answer: shutdown does not return before it is ended, too
		return true
	case c.Hello != nil:
		s.who = *c.Hello
	}
	return s.conn.Send(s.answer(c)) == nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// gone records a shim that was killed, and ends what it was running.
func (s *shim) gone() {
	if s.child != nil {
		s.child.SignalGroup(syscall.SIGKILL)
	}
	if s.who.Argv != nil {
		s.p.record(wire.Execution{Argv: s.who.Argv, UID: s.who.UID, RC: killedRC})
	}
}

// run starts a program for sudo or env; the answer follows when the program has ended.
func (s *shim) run(r wire.Run, files []*os.File) bool {
	if len(files) != 3 {
		return s.conn.Send(wire.Answer{Error: "a run needs three descriptors"}) == nil
	}
	child, err := s.p.table.Start(process.Spec{
		Path: r.Path, Argv: r.Argv, Env: r.Env, Dir: r.Dir, UID: r.UID, Files: [3]*os.File(files),
	})
	if err != nil {
		return s.conn.Send(s.p.notExecuted(r.Argv, r.UID, err)) == nil
	}
	s.child = child
	go func() {
		_ = s.conn.Send(outcome(child.Wait()))
	}()
	return true
}

func outcome(status syscall.WaitStatus) wire.Answer {
	if status.Signaled() {
		return wire.Answer{Signal: int(status.Signal())}
	}
	return wire.Answer{RC: status.ExitStatus()}
}

// notExecuted says what a shell says for a program it could not start. One
// that a Mac could have started is recorded as not modelled.
func (p *pid1) notExecuted(argv []string, uid int, err error) wire.Answer {
	a := wire.Answer{RC: cannotExecuteRC, Error: err.Error()}
	switch {
	case errors.Is(err, process.ErrBadCPU):
		a.Unmodelled = "a darwin program without a twin"
	case errors.Is(err, fs.ErrNotExist):
		a.RC = notFoundRC
	}
	if a.Unmodelled != "" {
		p.record(wire.Execution{Argv: argv, UID: uid, RC: a.RC, Unmodelled: a.Unmodelled})
	}
	return a
}

func (s *shim) answer(c wire.Call) wire.Answer {
	p := s.p
	switch {
	case c.Hello != nil:
		w := p.world()
		return wire.Answer{World: &w, Fault: p.fault(c.Hello.Argv)}
	case c.Owner != nil:
		return p.answerOwner(*c.Owner)
	case c.Verify != nil:
		return p.verify(c.Verify.Password)
	case c.Launchctl != nil:
		r := p.launchd.Control(s.who.UID, c.Launchctl)
		return wire.Answer{RC: r.RC, Stdout: r.Stdout, Stderr: r.Stderr, Unmodelled: r.Unmodelled}
	case c.Name != nil:
		return p.answerName(*c.Name)
	case c.Resigned != nil:
		if err := p.state.setResigned(c.Resigned.SHA256, c.Resigned.From); err != nil {
			return wire.Answer{Error: err.Error()}
		}
		return wire.Answer{}
	case c.Ticket != nil:
		return wire.Answer{Found: p.tickets.use(*c.Ticket)}
	case c.PF != nil:
		return s.answerPF(*c.PF)
	case c.Network != nil:
		return s.answerNetwork(*c.Network)
	case c.Tool != nil:
		return s.tool(*c.Tool)
	case c.Aqua:
		return wire.Answer{Found: s.who.UID == wire.UserUID && p.console.Active()}
	case c.Shutdown != "":
		return wire.Answer{}
	}
	return wire.Answer{Error: "empty call"}
}

func (p *pid1) answerOwner(c wire.OwnerCall) wire.Answer {
	if c.Set != nil {
		if err := p.state.setOwner(c.Inode, *c.Set); err != nil {
			return wire.Answer{Error: err.Error()}
		}
	}
	o := p.state.owner(c)
	if c.Path == "/dev/console" && p.console.Active() {
		o = wire.Owner{UID: wire.UserUID, GID: wire.StaffGID}
	}
	return wire.Answer{Owner: &o}
}

func (p *pid1) answerName(c wire.NameCall) wire.Answer {
	if c.Set != nil {
		if err := p.state.setName(c.Key, *c.Set); err != nil {
			return wire.Answer{Error: err.Error()}
		}
	}
	v, ok := p.state.name(c.Key)
	return wire.Answer{Value: v, Found: ok}
}

// verify is Open Directory: every check counts, a wrong one takes its time,
// and too many of them lock the account. An empty password never gets here on
// a Mac.
func (p *pid1) verify(password string) wire.Answer {
	if password == "" {
		return wire.Answer{}
	}
	p.host.send(wire.Event{Kind: wire.EventVerified})
	right, locked := p.account.Verify(password)
	if !right {
		time.Sleep(p.cfg.Scaled(wrongPasswordDelay))
	}
	return wire.Answer{Verified: right, Locked: locked}
}

// shutdown ends everything in the order of a real one, then has the host side
// cut the power. On a real Mac it is a race whether launchd ends SSH's connections
// before who called shutdown is back and can end by itself; here it always does.
func (p *pid1) shutdown(how string) {
	kind := wire.EventReboot
	if how == "halt" {
		kind = wire.EventHalt
	}
	p.launchd.Halt()
	time.Sleep(max(p.cfg.Scaled(shutdownDelay), lastWords))
	p.door.server.HangUp()
	_ = unix.Kill(-1, unix.SIGTERM)
	time.Sleep(p.cfg.Scaled(powerOffDelay))
	p.host.send(wire.Event{Kind: kind})
}
