package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	loginwindowDomain = "/Library/Preferences/com.apple.loginwindow"
	autoLoginUser     = "autoLoginUser"
	// sessionTimeout is from the start of loginwindow to a session, at most.
	sessionTimeout = 30 * time.Second
	// sealTimeout is how long macOS takes to seal a password that does not log in.
	sealTimeout = 10 * time.Second
)

// session has the console user logged in at boot, and now: macOS starts no macOS
// guest outside a graphical session.
func (t *target) session() step {
	return step{
		name:  "session",
		about: "Logs the console user in at every boot: writes `" + kcpasswordFile + "` (root only) and the preference `autoLoginUser`, and restarts loginwindow when nobody is logged in and no guest runs. macOS starts guests in such a session only. What is right already is not written again.",
		undo:  "Turn automatic login off in System Settings under Users & Groups, or remove `" + kcpasswordFile + "` and run `sudo defaults delete " + loginwindowDomain + " autoLoginUser`.",
		check: func(ctx context.Context) ([]string, error) {
			s, err := t.sessionState(ctx)
			return s.differs(), err
		},
		act:      t.logIn,
		prove:    t.proveSession,
		takeBack: t.forgetLogin,
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

func (t *target) sessionState(ctx context.Context) (sessionState, error) {
	s := sessionState{unwanted: !t.desired.Mac.AutoLogin, user: t.desired.Host.User}
	if s.unwanted {
		return s, nil
	}
	data, err := read(t.Mac.Files, kcpasswordFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("reading %s: %w", kcpasswordFile, err)
	}
	s.stored = JudgePassword(data)
	if err == nil {
		info, err := t.Mac.Files.Stat(ctx, kcpasswordFile)
		if err != nil {
			return s, fmt.Errorf("looking at %s: %w", kcpasswordFile, err)
		}
		if info.Attr != kcpasswordAttr {
			s.attr = fmt.Sprintf("%s is %s, not %s", kcpasswordFile, info.Attr, kcpasswordAttr)
		}
	}
	if s.autoLogin, _, err = t.Mac.Defaults.Read(ctx, loginwindowDomain, autoLoginUser); err != nil {
		return s, err
	}
	if s.console, err = t.Mac.Session.Owner(ctx); err != nil {
		return s, err
	}
	s.aqua, err = t.Mac.Session.Aqua(ctx, s.user)
	return s, err
}

var kcpasswordAttr = macos.Attr{Mode: 0o600, Owner: root, Group: wheel}

// logIn writes what is missing, and restarts loginwindow when there is no session.
func (t *target) logIn(ctx context.Context) error {
	s, err := t.sessionState(ctx)
	if err != nil {
		return err
	}
	// A person may have turned it on since the first look.
	if err := t.isOpen(ctx); err != nil {
		return err
	}
	if err := t.storePassword(ctx, s); err != nil {
		return err
	}
	if s.autoLogin != s.user {
		if err := t.Mac.Defaults.WriteString(ctx, loginwindowDomain, autoLoginUser, s.user); err != nil {
			return err
		}
	}
	if s.up() {
		return nil
	}
	return t.startSession(ctx, s)
}

// storePassword writes the document's password where none is stored that works.
// One that is stored and usable stays: whether it is right shows in a session.
func (t *target) storePassword(ctx context.Context, s sessionState) error {
	data, err := read(t.Mac.Files, kcpasswordFile)
	if s.stored != passwordUsable {
		data, err = t.newPassword(ctx, s.stored)
	}
	if err != nil {
		return err
	}
	t.tried = unscramblePassword(data)
	if s.stored == passwordUsable && s.attr == "" {
		return nil
	}
	return write(ctx, t.Mac.Files, file{kcpasswordFile, data, kcpasswordAttr})
}

// newPassword is the document's, scrambled.
func (t *target) newPassword(_ context.Context, stored StoredPassword) ([]byte, error) {
	if t.desired.Secrets == nil || t.desired.Secrets.ConsolePassword == "" {
		return nil, fail(document.Wait, "the password of %s for automatic login is %s and none came along: give the manager the console password, or run `macfleet host prepare`",
			t.desired.Host.User, stored)
	}
	password := t.desired.Secrets.ConsolePassword
	data, err := scramblePassword(password)
	if err != nil {
		return nil, fail(document.Wait, "the console password that came along is not used: %w", err)
	}
	refused, err := t.refusedBefore(password)
	if err != nil {
		return nil, err
	}
	if refused {
		return nil, fail(document.Wait, "macOS refused this very password of %s before: give the right one", t.desired.Host.User)
	}
	return data, nil
}

// startSession restarts loginwindow, which ends whatever is on the console. So
// nobody may be there, and no guest may run.
func (t *target) startSession(ctx context.Context, s sessionState) error {
	if Stranger(s.console, s.user) {
		return fail(document.Human, "the console belongs to %.64q: log that user out first", s.console)
	}
	if s.stored == passwordUsable && s.autoLogin == s.user {
		// Everything was in place: after a boot the session may be on its way.
		if up, err := sessionComes(ctx, t.Mac, s.user); up || err != nil {
			return err
		}
	}
	if err := t.noGuests(ctx, "a restart of loginwindow ends them"); err != nil {
		return err
	}
	kicked, err := KickLoginwindow(ctx, t.Mac, s.user)
	if kicked {
		t.kickedAt = t.Mac.Clock.Now()
	}
	return err
}

// noGuests fails while a guest runs that what follows would disturb.
func (t *target) noGuests(ctx context.Context, why string) error {
	running, err := t.Mac.Guests.Running(ctx)
	if err != nil {
		return err
	}
	if running > 0 {
		return fail(document.Wait, "waits until no guest runs: %d do, and %s", running, why)
	}
	return nil
}

// proveSession waits for the session. A password that did not log in shows by
// macOS sealing it.
func (t *target) proveSession(ctx context.Context) error {
	err := await(ctx, t.Mac.Clock, sessionTimeout, "a console session", func() (bool, error) {
		s, err := t.sessionState(ctx)
		return len(s.differs()) == 0, err
	})
	var late *timeoutError
	if !errors.As(err, &late) {
		if err == nil && t.Step != "" {
			// A step that runs alone has no later one to look again.
			return t.proveUnsealed(ctx)
		}
		return err
	}
	if err := t.unsealed(ctx); err != nil {
		return err
	}
	return fail(document.Reboot, "loginwindow was restarted and %w: reboot the Mac", late)
}

// proveUnsealed waits until macOS would have sealed a password that is wrong, when
// loginwindow was restarted in this run, and looks.
func (t *target) proveUnsealed(ctx context.Context) error {
	if t.kickedAt.IsZero() {
		return nil
	}
	if rest := t.kickedAt.Add(sealTimeout).Sub(t.Mac.Clock.Now()); rest > 0 {
		if err := t.Mac.Clock.Sleep(ctx, rest); err != nil {
			return err
		}
	}
	return t.unsealed(ctx)
}

// unsealed fails when the stored password was sealed, and remembers it as wrong.
func (t *target) unsealed(ctx context.Context) error {
	data, err := read(t.Mac.Files, kcpasswordFile)
	if err != nil {
		return fmt.Errorf("reading %s: %w", kcpasswordFile, err)
	}
	if JudgePassword(data) != passwordSealed {
		return nil
	}
	if err := t.rememberRefused(ctx); err != nil {
		return err
	}
	return fail(document.Wait, "macOS sealed the stored password, for it is not the one of %s: give the right one", t.desired.Host.User)
}

// forgetLogin leaves nobody logged in at the next boot, if that was our doing.
func (t *target) forgetLogin(ctx context.Context) error {
	if !t.desired.Mac.AutoLogin {
		return nil
	}
	if err := t.Mac.Files.Remove(kcpasswordFile); err != nil {
		return fmt.Errorf("removing %s: %w", kcpasswordFile, err)
	}
	return t.Mac.Defaults.Delete(ctx, loginwindowDomain, autoLoginUser)
}
