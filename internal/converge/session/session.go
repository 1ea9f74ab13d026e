// Package session keeps the console user logged in: macOS starts no macOS guest outside
// a graphical session.
package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const (
	// LoginwindowDomain holds the preferences of loginwindow.
	LoginwindowDomain = "/Library/Preferences/com.apple.loginwindow"
	// AutoLoginUser is the preference there that says who is logged in at boot.
	AutoLoginUser = "autoLoginUser"
	// sessionTimeout is from the start of loginwindow to a session, at most.
	sessionTimeout = 30 * time.Second
	// sealTimeout is how long macOS takes to seal a password that does not log in.
	sealTimeout = 10 * time.Second
)

// Console is the console of the Mac, in one run.
type Console struct {
	*step.Env
	// restartedAt is when this run restarted loginwindow; zero: it did not.
	restartedAt time.Time
	// tried is the password that macOS has to log in with in this run; empty: this
	// run looked at none. It is secret.
	tried string
}

// New returns the console.
func New(env *step.Env) *Console { return &Console{Env: env} }

// Restarted reports whether this run restarted loginwindow.
func (c *Console) Restarted() bool { return !c.restartedAt.IsZero() }

// Step has the console user logged in at boot, and now.
func (c *Console) Step() step.Step {
	return step.Step{
		Name:  "session",
		About: "Logs the console user in at every boot: writes `" + PasswordFile + "` (root only) and the preference `autoLoginUser`, and restarts loginwindow when nobody is logged in and no guest runs. macOS starts guests in such a session only. What is right already is not written again.",
		Undo:  "Turn automatic login off in System Settings under Users & Groups, or remove `" + PasswordFile + "` and run `sudo defaults delete " + LoginwindowDomain + " autoLoginUser`.",
		Check: func(ctx context.Context) ([]string, error) {
			s, err := c.sessionState(ctx)
			return s.differs(), err
		},
		Act:      c.logIn,
		Prove:    c.proveSession,
		TakeBack: c.disableLogin,
	}
}

// sessionState is what decides whether and how the user is logged in.
type sessionState struct {
	// unwanted: nobody is to be logged in, and nothing else was looked at.
	unwanted bool
	user     string
	stored   StoredPassword
	// attr is what is wrong with the owner and mode of the stored password.
	attr string
	// autoLogin is who is logged in at boot.
	autoLogin string
	// console is who owns the console now; aqua: in a graphical session of the user.
	console string
	aqua    bool
}

func (s sessionState) up() bool { return s.aqua && s.console == s.user }

func (s sessionState) differs() []string {
	var all []string
	if s.unwanted {
		return nil
	}
	if s.stored != "" && s.stored != passwordUsable {
		all = append(all, "the password for automatic login is "+string(s.stored))
	}
	if s.attr != "" {
		all = append(all, s.attr)
	}
	if s.autoLogin != s.user {
		all = append(all, fmt.Sprintf("%.64q is logged in at boot", s.autoLogin))
	}
	if !s.up() {
		all = append(all, fmt.Sprintf("no session of %s is on the console", s.user))
	}
	return all
}

func (c *Console) sessionState(ctx context.Context) (sessionState, error) {
	s := sessionState{unwanted: !c.Desired.Mac.AutoLogin, user: c.Desired.Host.User}
	if s.unwanted {
		return s, nil
	}
	var err error
	if s.stored, err = Stored(c.Mac.Files); err != nil {
		return s, err
	}
	if s.stored != passwordMissing {
		info, err := c.Mac.Files.Stat(ctx, PasswordFile)
		if err != nil {
			return s, fmt.Errorf("looking at %s: %w", PasswordFile, err)
		}
		if info.Attr != kcpasswordAttr {
			s.attr = fmt.Sprintf("%s is %s, not %s", PasswordFile, info.Attr, kcpasswordAttr)
		}
	}
	loginwindow, err := c.Mac.Defaults.Values(ctx, LoginwindowDomain)
	if err != nil {
		return s, err
	}
	s.autoLogin = loginwindow[AutoLoginUser]
	if s.console, err = c.Mac.Session.Owner(ctx); err != nil {
		return s, err
	}
	s.aqua, err = c.Mac.Session.Aqua(ctx, s.user)
	return s, err
}

var kcpasswordAttr = step.RootAttr(0o600)

// logIn writes what is missing, and restarts loginwindow when there is no session.
func (c *Console) logIn(ctx context.Context) error {
	s, err := c.sessionState(ctx)
	if err != nil {
		return err
	}
	// A person may have turned it on since the first look.
	if err := c.RequireUnlockedDisk(ctx); err != nil {
		return err
	}
	if err := c.storePassword(ctx, s); err != nil {
		return err
	}
	if s.autoLogin != s.user {
		if err := c.Mac.Defaults.WriteString(ctx, LoginwindowDomain, AutoLoginUser, s.user); err != nil {
			return err
		}
	}
	if s.up() {
		return nil
	}
	return c.startSession(ctx, s)
}

// storePassword writes the document's password where none is stored that works.
// One that is stored and usable stays: whether it is right shows in a session.
func (c *Console) storePassword(ctx context.Context, s sessionState) error {
	data, err := step.Read(c.Mac.Files, PasswordFile)
	if s.stored != passwordUsable {
		data, err = c.newPassword(ctx, s.stored)
	}
	if err != nil {
		return err
	}
	c.tried = unscramblePassword(data)
	if s.stored == passwordUsable && s.attr == "" {
		return nil
	}
	return step.Write(ctx, c.Mac.Files, step.File{Path: PasswordFile, Data: data, Attr: kcpasswordAttr})
}

// newPassword is the document's, scrambled.
func (c *Console) newPassword(_ context.Context, stored StoredPassword) ([]byte, error) {
	if c.Desired.Secrets == nil || c.Desired.Secrets.ConsolePassword == "" {
		return nil, step.Fail(document.Wait, "the password of %s for automatic login is %s and none came along: give the manager the console password, or run `macfleet host prepare`",
			c.Desired.Host.User, stored)
	}
	password := c.Desired.Secrets.ConsolePassword
	data, err := scramblePassword(password)
	if err != nil {
		return nil, step.Fail(document.Wait, "the console password that came along is not used: %w", err)
	}
	refused, err := c.refusedBefore(password)
	if err != nil {
		return nil, err
	}
	if refused {
		return nil, c.wrongPassword("macOS refused this very password of %s before", c.Desired.Host.User)
	}
	return data, nil
}

// startSession restarts loginwindow, which ends whatever is on the console. So
// nobody may be there, and no guest may run.
func (c *Console) startSession(ctx context.Context, s sessionState) error {
	if AnotherUser(s.console, s.user) {
		return step.Fail(document.Human, "the console belongs to %.64q: log that user out first", s.console)
	}
	if s.stored == passwordUsable && s.autoLogin == s.user {
		// Everything was in place: after a boot the session may be on its way.
		if up, err := awaitSession(ctx, c.Mac, s.user); up || err != nil {
			return err
		}
	}
	if err := c.NoGuests(ctx, "a restart of loginwindow ends them"); err != nil {
		return err
	}
	tried, err := RestartLoginwindow(ctx, c.Mac, s.user)
	if tried {
		c.restartedAt = c.Mac.Clock.Now()
	}
	return err
}

// proveSession waits for the session. A password that did not log in shows by
// macOS sealing it, or by no session the second time.
func (c *Console) proveSession(ctx context.Context) error {
	var s sessionState
	err := step.Await(ctx, c.Mac.Clock, sessionTimeout, "a console session", func() (_ bool, err error) {
		s, err = c.sessionState(ctx)
		return len(s.differs()) == 0, err
	})
	var late *step.TimeoutError
	switch {
	case err == nil:
		return c.sessionProved(ctx)
	case !errors.As(err, &late):
		return err
	}
	if err := c.requireUnsealed(ctx); err != nil {
		return err
	}
	return c.explainAbsence(ctx, s, late)
}

// sessionProved is what follows a session that came.
func (c *Console) sessionProved(ctx context.Context) error {
	if err := LoggedIn(ctx, c.Mac); err != nil || !c.Alone {
		return err
	}
	// A step that runs alone has no later one to look again.
	return c.ProveUnsealed(ctx)
}

// explainAbsence is the failure of a session that did not come, or not to the console.
func (c *Console) explainAbsence(ctx context.Context, s sessionState, late error) error {
	switch {
	case !c.Restarted() && s.aqua && !s.up():
		return step.Fail(document.Human, "the session of %s is in the background: log in at the console", s.user)
	case !c.Restarted():
		return step.Fail(document.Reboot, "%w: reboot the Mac", late)
	case !s.aqua:
		if err := c.countTry(ctx); err != nil {
			return err
		}
	}
	return step.Fail(document.Reboot, "loginwindow was restarted and %w: reboot the Mac", late)
}

// countTry remembers that a restart of loginwindow brought no session, and fails the second
// time: then the password counts as refused.
func (c *Console) countTry(ctx context.Context) error {
	again, err := c.triedBefore()
	if err != nil {
		return err
	}
	if !again {
		return c.recordTried(ctx)
	}
	// Each boot and hostd would try it again. It goes first: what is cut off here tries it
	// once more, and not for ever.
	if err := c.Mac.Files.Remove(PasswordFile); err != nil {
		return fmt.Errorf("removing %s: %w", PasswordFile, err)
	}
	if err := c.recordRefused(ctx); err != nil {
		return err
	}
	return c.wrongPassword("loginwindow was restarted twice with the stored password of %s and no session came, so it counts as refused", c.Desired.Host.User)
}

// ProveUnsealed waits until macOS would have sealed a password that is wrong, when
// loginwindow was restarted in this run, and looks.
func (c *Console) ProveUnsealed(ctx context.Context) error {
	if !c.Restarted() {
		return nil
	}
	if rest := c.restartedAt.Add(sealTimeout).Sub(c.Mac.Clock.Now()); rest > 0 {
		if err := c.Mac.Clock.Sleep(ctx, rest); err != nil {
			return err
		}
	}
	return c.requireUnsealed(ctx)
}

// requireUnsealed fails when the stored password was sealed, and remembers it as wrong.
func (c *Console) requireUnsealed(ctx context.Context) error {
	data, err := step.Read(c.Mac.Files, PasswordFile)
	if err != nil {
		return fmt.Errorf("reading %s: %w", PasswordFile, err)
	}
	if JudgePassword(data) != passwordSealed {
		return nil
	}
	if err := c.recordRefused(ctx); err != nil {
		return err
	}
	return c.wrongPassword("macOS sealed the stored password, for it is not the one of %s", c.Desired.Host.User)
}

// wrongPassword is the failure of a password that does not log in. The vendor tells one
// for each install epoch, so that none follows it: a Mac that has yet to join counts it, as
// it does one that sudo refuses, until it is wiped. One that runs waits for a person: nothing wipes it.
func (c *Console) wrongPassword(format, user string) error {
	class := document.Wait
	if c.Desired.Join != nil && !c.TakeOver {
		class = document.Retry
	}
	return step.Fail(class, format+": give the right one, or have the Mac wiped, which brings another", user)
}

// disableLogin leaves nobody logged in at the next boot, if that was our doing.
func (c *Console) disableLogin(ctx context.Context) error {
	if !c.Desired.Mac.AutoLogin {
		return nil
	}
	if err := c.Mac.Files.Remove(PasswordFile); err != nil {
		return fmt.Errorf("removing %s: %w", PasswordFile, err)
	}
	return c.Mac.Defaults.Delete(ctx, LoginwindowDomain, AutoLoginUser)
}
