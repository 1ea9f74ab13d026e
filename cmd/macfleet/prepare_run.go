package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
)

// preparation is one run of prepare.
type preparation struct {
	target remote.Target
	build  *remote.Build
	out    io.Writer
	asked  asker
	// settle waits as long as macOS may take to seal a wrong password.
	settle func(context.Context) error

	// password is asked for once at most; empty before.
	password typed
}

// endError is how a run of prepare ended, with its exit code and what the operator
// can do now.
type endError struct {
	code   int
	err    error
	advice []string
}

func (e *endError) Error() string { return e.err.Error() }
func (e *endError) Unwrap() error { return e.err }

// report says how the run ended: the failure in one line, then the ways out.
func (p *preparation) report(ctx context.Context, stderr io.Writer, err error) error {
	var end *endError
	if !errors.As(err, &end) {
		return err
	}
	if ctx.Err() != nil {
		end.code = exitInterrupted
	}
	fmt.Fprintf(stderr, "macfleet: %s\n", oneLine(err))
	for _, line := range end.advice {
		fmt.Fprintln(stderr, "  "+line)
	}
	return exitError{code: end.code}
}

// run prepares the Mac. Nothing secret leaves before the host key is accepted and
// the Mac has said what it is.
func (p *preparation) run(ctx context.Context) error {
	if err := p.pin(ctx); err != nil {
		return err
	}
	session, err := remote.Dial(ctx, p.target)
	if err != nil {
		return p.unreached(err)
	}
	defer func() { _ = session.Close() }()
	facts, err := session.Probe(ctx)
	if err != nil {
		return &endError{code: exitUnfit, err: err}
	}
	if err := p.fit(facts); err != nil {
		return err
	}
	if err := p.becomeRoot(ctx, session, facts); err != nil {
		return err
	}
	if err := p.consoleSession(ctx, session); err != nil {
		return err
	}
	p.say("the Mac at %s is prepared", p.target.Address)
	return nil
}

// say tells a person; what a Mac said of itself moves no cursor.
func (p *preparation) say(format string, args ...any) {
	_, _ = fmt.Fprintf(screen.Cleaned(p.out), format+"\n", args...)
}

// pin settles the host key: by the flag, or by asking. The connection that shows the
// key ends before the question, so that it holds no slot of the Mac meanwhile.
func (p *preparation) pin(ctx context.Context) error {
	if p.target.Pin != (remote.Pin{}) {
		return nil
	}
	var shown remote.Pin
	look := p.target
	look.FirstUse = func(_ context.Context, pin remote.Pin) error {
		shown = pin
		return errLooked
	}
	session, err := remote.Dial(ctx, look)
	if err == nil {
		_ = session.Close()
	}
	if !errors.Is(err, errLooked) {
		return p.unreached(err)
	}
	p.say("the Mac at %s shows the host key\n  %s\n"+
		"on its own screen (VNC): ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub", p.target.Address, shown)
	answer, err := p.asked.line(ctx, "Is this its key? Type yes: ")
	if err != nil {
		return &endError{code: exitUsage, err: fmt.Errorf("asking whether the host key is right: %w: give it with --host-key-fingerprint", err)}
	}
	if answer != "yes" {
		return &endError{code: exitHostKey, err: errors.New("the host key was not accepted: nothing was sent")}
	}
	p.target.Pin = shown
	return nil
}

// errLooked ends a connection that was made to see the host key.
var errLooked = errors.New("only looked at")

// fit refuses a machine that no fleet can use, and one that a fleet has.
func (p *preparation) fit(f remote.Facts) error {
	var why string
	switch {
	case f.Arch != "" && f.Arch != "arm64":
		why = fmt.Sprintf("it is %s and not Apple silicon: is the address right?", f.Arch)
	case f.VirtualMachine:
		why = "it is a virtual machine and cannot run guests: is the address right?"
	case f.FileVault == remote.On:
		why = "FileVault is on, so that it cannot start without a person: turn it off, or reinstall the server"
	case len(f.Missing()) > 0:
		why = fmt.Sprintf("it does not say its %v: is it a Mac?", f.Missing())
	case f.SudoAgent:
		why = "it is part of a fleet already: there is nothing to prepare"
	default:
		p.say("it is a %s with macOS %s, serial number %s", f.Model, f.OSVersion, f.Serial)
		if f.DiskMarker != nil {
			p.say("it bears the mark of a fleet: Machine %s, installation %d", f.DiskMarker.Name, f.DiskMarker.Epoch)
		}
		return nil
	}
	return &endError{code: exitUnfit, err: fmt.Errorf("the machine at %s cannot be prepared: %s", p.target.Address, why)}
}

// becomeRoot spends the one attempt of the password, where one is due.
func (p *preparation) becomeRoot(ctx context.Context, session *remote.Session, f remote.Facts) error {
	if f.Sudo {
		p.say("user %s becomes root without a password already", p.target.User)
		return nil
	}
	if err := p.ask(ctx); err != nil {
		return err
	}
	if err := session.Grant(ctx, p.password); err != nil {
		return p.notGranted(err)
	}
	p.say("user %s becomes root without a password from now on", p.target.User)
	return nil
}

// ask asks for the password, the first time that it is needed.
func (p *preparation) ask(ctx context.Context) error {
	if p.password != "" {
		return nil
	}
	text, err := p.asked.hidden(ctx, fmt.Sprintf("Password of %s on the Mac (asked once): ", p.target.User))
	if err != nil {
		return &endError{code: exitUsage, err: fmt.Errorf("asking for the password: %w: run this where you can type it", err)}
	}
	if err := typed(text).usable(); err != nil {
		return &endError{code: exitUsage, err: err}
	}
	p.password = typed(text)
	return nil
}

// consoleSession has the agent give the Mac its session, and looks again when a
// wrong password would have shown. A Mac that has its session needs no password.
func (p *preparation) consoleSession(ctx context.Context, session *remote.Session) error {
	if _, err := session.Receive(ctx, p.build); err != nil {
		return &endError{code: exitFailed, err: err}
	}
	report, err := p.sessionStep(ctx, session)
	var failed *remote.Failed
	if p.password == "" && errors.As(err, &failed) && failed.Class == document.Wait {
		if err := p.ask(ctx); err != nil {
			return err
		}
		report, err = p.sessionStep(ctx, session)
	}
	if err != nil {
		return &endError{code: exitSession, err: fmt.Errorf("giving the Mac a console session: %w", err)}
	}
	if !report.Changed() {
		p.say("it has its console session already")
		return nil
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
	p.password = ""
	if _, err := p.sessionStep(ctx, session); err != nil {
		return &endError{code: exitSession, err: fmt.Errorf("looking for the console session again: %w", err)}
	}
	p.say("it has a console session, and will have one after every boot")
	return nil
}

func (p *preparation) sessionStep(ctx context.Context, session *remote.Session) (document.Report, error) {
	return session.ConvergeStep(ctx, p.build.SHA256, "session", p.document())
}

// document asks for a console session; the rest is what a document must hold, and
// belongs to no fleet.
func (p *preparation) document() document.Desired {
	d := document.Desired{
		Host:  document.Host{Name: "prepared-by-hand", ProviderID: "none", Epoch: 1, User: p.target.User, Address: p.target.Address},
		Agent: document.Agent{SHA256: p.build.SHA256},
		Node:  document.Node{MaxVMs: document.MaxMaxVMs},
		Mac:   document.Mac{AutoLogin: true, Network: document.Network{Subnet: document.DefaultSubnet}},
	}
	if p.password != "" {
		d.Secrets = &document.Secrets{ConsolePassword: p.password.Reveal()}
	}
	return d
}
