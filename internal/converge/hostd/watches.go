package hostd

import (
	"context"
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/session"
)

const (
	// absentFor is how long there must be no session before hostd makes one: after a
	// boot, macOS itself may take most of a minute to log in.
	absentFor = 90 * time.Second
	// sshMisses are the looks in a row at which the SSH server says nothing before
	// its port is opened anew. Whether connections that exist go on is not proved.
	sshMisses = 3
	// maxRestarts are the restarts of loginwindow in a row that hostd makes, or tries to
	// make, though none brings a session. Each may try a wrong password, and a few of
	// those lock the account.
	maxRestarts = 2
)

// sessionState is what decides whether loginwindow is restarted.
type sessionState struct {
	// Wanted: the user is to have a session at all times; Up: there is one.
	Wanted, Up bool
	// Console is who owns the console.
	Console, User string
	// Stored is the password that a restart would log in with.
	Stored session.StoredPassword
	Guests int
	// Restarts are those since there was a session last, in this boot.
	Restarts int
	// Absent is for how long there was no session.
	Absent time.Duration
}

// restartDue decides, and says what is wrong while it is not for hostd to repair. How
// often loginwindow is restarted at most is converge's rule for both.
func (s sessionState) restartDue() (due bool, trouble string) {
	switch {
	case s.Up, !s.Wanted:
		return false, ""
	case session.AnotherUser(s.Console, s.User):
		return false, fmt.Sprintf("somebody else, %.64q, is at the console: log that user out", s.Console)
	case !s.Stored.Usable():
		return false, fmt.Sprintf("no session of %s, and a restart of loginwindow brings none: the password for automatic login is %s", s.User, s.Stored)
	case s.Guests > 0:
		return false, fmt.Sprintf("no session of %s, and %d guests run, which a restart of loginwindow would end", s.User, s.Guests)
	case s.Absent < absentFor:
		return false, ""
	case s.Restarts >= maxRestarts:
		return false, fmt.Sprintf("no session of %s after %d restarts of loginwindow: log in at the console, or reboot the Mac", s.User, s.Restarts)
	}
	return true, ""
}

// keepSession restarts loginwindow when the session is gone for good.
func (h *hostd) keepSession(ctx context.Context, c document.AgentConfig) error {
	s := sessionState{Wanted: c.Mac.AutoLogin, User: c.Host.User, Restarts: h.restarts}
	var err error
	if s.Up, err = h.o.Mac.Session.Aqua(ctx, s.User); err != nil {
		return err
	}
	h.recordSession(s.Up)
	switch {
	case s.Up:
		return session.LoggedIn(ctx, h.o.Mac)
	case !s.Wanted:
		return nil
	}
	if s.Stored, err = session.Stored(h.o.Mac.Files); err != nil {
		return err
	}
	if s.Console, err = h.o.Mac.Session.Owner(ctx); err != nil {
		return err
	}
	if s.Guests, err = h.o.Mac.Guests.Running(ctx); err != nil {
		return err
	}
	s.Absent = h.o.Mac.Clock.Now().Sub(h.absentSince)
	due, trouble := s.restartDue()
	if trouble != "" {
		return fmt.Errorf("%s", trouble)
	}
	if !due {
		return nil
	}
	tried, err := session.RestartLoginwindow(ctx, h.o.Mac, s.User)
	if tried {
		h.restarts++
	}
	if tried && err == nil {
		h.log.Warn("loginwindow restarted, as there was no session", "user", s.User, "absent", s.Absent)
	}
	return err
}

// recordSession remembers whether there is a session, and since when not.
func (h *hostd) recordSession(up bool) {
	h.mu.Lock()
	changed := h.session != up
	h.session = up
	h.mu.Unlock()
	switch {
	case up:
		h.absentSince, h.restarts = time.Time{}, 0
	case h.absentSince.IsZero():
		h.absentSince = h.o.Mac.Clock.Now()
	}
	if changed {
		h.log.Info("console session", "up", up)
	}
}

// sshWatch counts how often in a row the SSH server said nothing.
type sshWatch struct {
	misses int
	// reopened counts how often the port was opened anew since it answered last.
	reopened int
}

// next takes one look into account and says whether to open the port anew. Each time
// gets as many looks as the first.
func (w *sshWatch) next(answers bool) (reopen bool) {
	if answers {
		*w = sshWatch{}
		return false
	}
	w.misses++
	if w.misses < sshMisses {
		return false
	}
	w.misses = 0
	w.reopened++
	return true
}

// sshJob listens at the SSH port: launchd itself does, and starts a server for each
// connection. Scanners that half open connections fill the queue of that port, and then
// nobody gets in, though the job is well and has no process to restart.
func sshJob() launchd.Job {
	return launchd.Job{Name: "Remote Login", Label: "com.openssh.sshd", Plist: "/System/Library/LaunchDaemons/ssh.plist"}
}

// watchSSH asks the SSH server for its banner: a connection alone says nothing, as
// launchd accepts it.
func (h *hostd) watchSSH(ctx context.Context) error {
	silent := h.o.Mac.SSHD.Answers(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	reopen := h.ssh.next(silent == nil)
	if silent == nil {
		return nil
	}
	control := launchd.Control{Mac: h.o.Mac}
	_, loaded, err := control.Print(ctx, sshJob().Label)
	switch {
	case err != nil:
	case !loaded:
		// Also a hostd that ended while it opened the port anew leaves it shut.
		h.log.Warn("the SSH port is opened, as launchd does not listen there", "err", silent)
		err = control.Open(ctx, sshJob())
	case reopen:
		h.log.Warn("the SSH port is opened anew, as the SSH server does not answer", "err", silent, "times", h.ssh.reopened)
		err = control.Reopen(ctx, sshJob())
	case h.ssh.reopened > 0:
		return fmt.Errorf("its port was opened anew %d times, and still: %w", h.ssh.reopened, silent)
	}
	if err != nil {
		return fmt.Errorf("%w; opening its port anew: %w", silent, err)
	}
	return silent
}
