package converge

import (
	"bytes"
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/session"
	"github.com/macfleet/macfleet/internal/converge/step"
)

func (f *fixture) fileAttr() macos.Attr { return step.RootAttr(0o644) }

// A prepared Mac logs its user in at boot, and now.
func TestRequirement002_PreparedMacLogsIn(t *testing.T) {
	f := newFixture(t)
	o := f.options()
	o.Step = "session"
	if s, failed := f.run(o).FailedStep(); failed {
		t.Fatalf("%s (%s)", s.Detail, s.Class)
	}
	want := macostest.ScrambledPassword("correct horse")
	if got := f.content(kcpasswordFile); got != string(want) {
		t.Errorf("%s holds %x", kcpasswordFile, got)
	}
	info, err := f.mac.Interfaces().Files.Stat(t.Context(), kcpasswordFile)
	if err != nil || info.Attr.String() != "root:wheel 0600" {
		t.Errorf("%s is %s (%v)", kcpasswordFile, info.Attr, err)
	}
	if user, _ := f.mac.Default(loginwindowDomain, autoLoginUser); user != "m1" {
		t.Errorf("%q is logged in at boot", user)
	}
	f.mac.Reboot()
	if err := f.mac.Interfaces().Clock.Sleep(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if up, err := f.mac.Interfaces().Session.Aqua(t.Context(), "m1"); err != nil || !up {
		t.Errorf("no session after a boot (%v)", err)
	}
	if _, marked := f.mac.Get(document.DiskMarkerFile); marked {
		t.Error("a step alone marked the disk")
	}
}

// What the vendor shows in place of a password is no password.
func TestRequirement003_SealedPasswordIsNeverWritten(t *testing.T) {
	for name, secrets := range map[string]*document.Secrets{
		"sealed": {ConsolePassword: document.Sealed}, "empty": {}, "none": nil,
	} {
		for before, data := range map[string][]byte{
			"fresh": nil, "sealed file": []byte(sealedPrefix + "\xa3\xb9\x1f\x7d"),
		} {
			t.Run(name+"/"+before, func(t *testing.T) {
				f := newFixture(t)
				f.desired.Secrets = secrets
				if data != nil {
					f.mac.Put(kcpasswordFile, data, kcpasswordAttr)
				}
				r := f.refused("session", document.Wait, "password")
				if got, _ := f.mac.Get(kcpasswordFile); !bytes.Equal(got, data) {
					t.Errorf("%s holds %x", kcpasswordFile, got)
				}
				if s, _ := r.FailedStep(); strings.Contains(s.Detail, document.Sealed) {
					t.Errorf("shown: %s", s.Detail)
				}
				if f.mac.Console.Restarts != 0 {
					t.Error("loginwindow was restarted")
				}
			})
		}
	}
}

func TestSessionThatHoldsIsNotTouched(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Console.Guests = 2
	for _, secrets := range []*document.Secrets{nil, {ConsolePassword: "another"}} {
		f.desired.Secrets = secrets
		if got := outcomes(f.converge())["session"]; got != document.Unchanged {
			t.Errorf("session %s", got)
		}
	}
	if f.mac.Console.Restarts != 1 {
		t.Errorf("loginwindow was restarted %d times", f.mac.Console.Restarts)
	}
}

func TestLooseStoredPasswordIsTightened(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.desired.Secrets = nil
	before := f.content(kcpasswordFile)
	f.mac.Put(kcpasswordFile, []byte(before), f.fileAttr())
	if got := outcomes(f.converge())["session"]; got != document.Changed || f.content(kcpasswordFile) != before {
		t.Errorf("session %s", got)
	}
	if f.mac.Console.Restarts != 1 {
		t.Error("the session was ended for a file's mode")
	}
}

func TestGuestsKeepLoginwindowRunning(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.LogOut()
	f.mac.Console.Guests = 1 // started outside of a session, by hand
	f.refused("session", document.Wait, "waits until no guest runs")
	f.mac.Console.Guests = 0
	f.later(restartCooldown)
	f.converge()
}

func (f *fixture) later(d time.Duration) {
	f.t.Helper()
	if err := f.mac.Interfaces().Clock.Sleep(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
}

func TestAnotherUsersConsoleIsNotTaken(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Console.User = "somebody"
	f.refused("session", document.Human, `the console belongs to "somebody"`)
}

func TestWrongPasswordIsTriedOnce(t *testing.T) {
	f := newFixture(t)
	f.desired.Secrets.ConsolePassword = "wrong"
	r := f.refused("session", document.Retry, "sealed")
	line, err := document.EncodeReport(r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(line), "wrong") || strings.Contains(f.content(session.File), "wrong") {
		t.Error("the password shows")
	}
	f.later(2 * restartCooldown)
	f.refused("session", document.Retry, "this very password")
	f.mac.Reboot()
	f.refused("session", document.Retry, "this very password")
	if f.mac.Console.Refused > 2 { // once by the restart of loginwindow, and once by the boot if it was not sealed yet
		t.Errorf("macOS was given a wrong password %d times", f.mac.Console.Refused)
	}
	f.desired.Secrets.ConsolePassword = "correct horse"
	f.converge()
}

// Not every macOS seals a password that does not log in: the second restart without a
// session takes it away, so that neither a boot nor hostd tries it again.
func TestWrongPasswordThatIsNotSealedIsTriedTwice(t *testing.T) {
	for name, c := range map[string]struct {
		join  bool
		class document.Class
	}{"joins": {true, document.Retry}, "runs": {false, document.Wait}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.mac.Console.NeverSeals = true
			f.desired.Secrets.ConsolePassword = "wrong"
			if !c.join {
				f.desired.Join = nil
			}
			f.refused("session", document.Reboot, "loginwindow was restarted and waited")
			f.later(restartCooldown)
			f.refused("session", c.class, "restarted twice with the stored password of m1")
			f.gone(kcpasswordFile)
			if strings.Contains(f.content(session.File), "wrong") {
				t.Error("the password shows")
			}
			for range 2 {
				f.mac.Reboot()
				f.later(restartCooldown)
				f.refused("session", c.class, "this very password")
			}
			if f.mac.Console.Refused != 2 {
				t.Errorf("macOS was given a wrong password %d times", f.mac.Console.Refused)
			}
			f.desired.Secrets.ConsolePassword = "correct horse"
			o := f.options()
			o.Step = "session"
			if s, failed := f.run(o).FailedStep(); failed {
				t.Errorf("another password: %s (%s)", s.Detail, s.Class)
			}
		})
	}
}

// A right password may bring no session once: when one came since, that is forgotten.
func TestSessionThatFailedOnceRefusesNoPassword(t *testing.T) {
	f := newFixture(t)
	for range 2 {
		f.mac.Console.NoLogin = true
		f.refused("session", document.Reboot, "loginwindow was restarted and waited")
		f.mac.Console.NoLogin = false
		f.later(restartCooldown)
		f.converge()
		f.mac.LogOut()
		f.later(restartCooldown)
	}
}

// A session that is switched out is there: loginwindow is not restarted, and a reboot
// would end it.
func TestSessionInTheBackgroundIsForAPerson(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Console.Background = true
	f.refused("session", document.Human, "the session of m1 is in the background: log in at the console")
	if f.mac.Console.Restarts != 1 {
		t.Errorf("%d restarts", f.mac.Console.Restarts)
	}
	f.mac.Console.Background = false
	f.converge()
}

// No other password comes in an install epoch: a Mac that has yet to join counts it, so
// that it is wiped in the end. Nothing wipes one that runs, and a person is asked.
func TestWrongPasswordCountsUntilTheMacHasJoined(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(*document.Desired)
		class   document.Class
	}{
		"joins":         {func(*document.Desired) {}, document.Retry},
		"runs":          {func(d *document.Desired) { d.Join = nil }, document.Wait},
		"is taken over": {func(d *document.Desired) { d.Host.TakeOver = true }, document.Wait},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.desired.Secrets.ConsolePassword = "wrong"
			c.arrange(&f.desired)
			f.refused("session", c.class, "sealed the stored password")
			f.refused("session", c.class, "before: give the right one, or have the Mac wiped, which brings another")
		})
	}
}

// What was refused is what lay there, not what came along and was not tried yet.
func TestRightPasswordFollowsAWrongOne(t *testing.T) {
	f := newFixture(t)
	data := macostest.ScrambledPassword("the vendor's former one")
	f.mac.Put(kcpasswordFile, data, kcpasswordAttr)
	f.mac.SetDefault(loginwindowDomain, autoLoginUser, "m1")
	f.refused("session", document.Retry, "sealed")
	f.later(restartCooldown)
	f.converge()
	var note struct {
		Refused []struct{ Salt, Hash []byte }
	}
	if err := json.Unmarshal([]byte(f.content(session.File)), &note); err != nil || len(note.Refused) != 1 {
		t.Fatalf("%+v, %v", note, err)
	}
	for password, want := range map[string]bool{"the vendor's former one": true, "correct horse": false} {
		hash, err := pbkdf2.Key(sha256.New, password, note.Refused[0].Salt, 100_000, sha256.Size)
		if got := bytes.Equal(hash, note.Refused[0].Hash); err != nil || got != want {
			t.Errorf("%s refused: %v (%v)", password, got, err)
		}
	}
}

// A person may turn FileVault on while a run is at it.
func TestFileVaultInTheMiddleOfARun(t *testing.T) {
	f := newFixture(t)
	f.mac.Fail = func(call string) error {
		f.mac.System.FileVault = f.mac.System.FileVault || call == "write "+document.DiskMarkerFile
		return nil
	}
	f.refused("session", document.Human, "FileVault is on")
	f.gone(kcpasswordFile)
	if f.mac.Console.Restarts != 0 {
		t.Error("loginwindow was restarted")
	}
}

func TestPasswordThatIsSealedLate(t *testing.T) {
	f := newFixture(t)
	f.mac.Console.LoginTakes = time.Second
	f.mac.Console.SealTakes = 8 * time.Second
	// A session comes, and the password is sealed all the same.
	sealing := false
	f.mac.Fail = func(call string) error {
		if call == "write "+logRotation && !sealing {
			sealing = true
			f.mac.Put(kcpasswordFile, []byte(sealedPrefix+"\xa3"), kcpasswordAttr)
		}
		return nil
	}
	f.refused("proof", document.Retry, "sealed")
}

func TestLoginwindowIsRestartedOnceInTenMinutes(t *testing.T) {
	f := newFixture(t)
	f.mac.Console.NoLogin = true
	f.refused("session", document.Reboot, "waited 30s")
	f.refused("session", document.Retry, "loginwindow was restarted")
	if f.mac.Console.Restarts != 1 {
		t.Errorf("%d restarts", f.mac.Console.Restarts)
	}
	f.later(restartCooldown)
	f.mac.Console.NoLogin = false
	f.converge()
	// Another boot has started loginwindow anew: it may be restarted in it.
	f.mac.Console.NeedsRestart = true
	f.mac.Reboot()
	f.converge()
	if f.mac.Console.Restarts != 3 {
		t.Errorf("%d restarts", f.mac.Console.Restarts)
	}
}

// What logs the user in is stored by then, and a boot starts loginwindow anew.
func TestLoginwindowThatCannotBeRestartedAsksForAReboot(t *testing.T) {
	f := newFixture(t)
	fails := func(err error) {
		f.mac.Fail = func(call string) error {
			if call == "restart loginwindow" {
				return err
			}
			return nil
		}
	}
	fails(fmt.Errorf("launchctl: %w", context.DeadlineExceeded))
	f.refused("session", document.Retry, "restarting loginwindow: launchctl")
	fails(&macos.LaunchdError{Verb: "kickstart", Code: 1, Text: "Operation not permitted"})
	f.refused("session", document.Reboot, "Operation not permitted: reboot the Mac")
	f.mac.Fail = nil
	f.mac.Reboot()
	f.converge()
	if f.mac.Console.Restarts != 0 {
		t.Errorf("%d restarts", f.mac.Console.Restarts)
	}
}

// A run that was cut off right before or after it restarted loginwindow leaves
// that open; a session that is on its way is waited for.
func TestRestartOfUnknownOutcome(t *testing.T) {
	f := newFixture(t)
	writes := 0
	f.mac.Fail = func(call string) error {
		if call == "write "+session.File {
			if writes++; writes == 2 {
				return errCut
			}
		}
		return nil
	}
	if _, err := Run(t.Context(), f.options(), f.desired); err != nil {
		t.Fatal(err)
	}
	f.mac.Fail = nil
	f.converge()
	if f.mac.Console.Restarts != 1 {
		t.Errorf("%d restarts", f.mac.Console.Restarts)
	}
}

// hostd restarts it too, and may come while nobody knows of the last one.
func TestRestartWaitsForASessionOnItsWay(t *testing.T) {
	for name, comes := range map[string]bool{"on its way": true, "not coming": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.converge()
			f.mac.Console.NeedsRestart = !comes
			f.mac.Reboot()
			mac := f.mac.Interfaces()
			note := fmt.Sprintf(`{"kickedAt":%q,"bootSession":%q}`, mac.Clock.Now().Format(time.RFC3339Nano), f.mac.Boot)
			f.mac.Put(session.File, []byte(note), step.RootAttr(0o600))
			if restarted, err := session.RestartLoginwindow(t.Context(), mac, "m1"); err != nil || restarted == comes {
				t.Errorf("restarted %v (%v)", restarted, err)
			}
		})
	}
}

// Converge and hostd may both find no session: one of them restarts loginwindow, and
// the other waits for what comes of it.
func TestOneProcessAtATimeRestartsLoginwindow(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Console.NeedsRestart = true
	f.mac.Reboot()
	mac := f.mac.Interfaces()
	other, err := mac.Files.Lock(session.Lock)
	if err != nil {
		t.Fatal(err)
	}
	before := f.mac.Console.Restarts
	if restarted, err := session.RestartLoginwindow(t.Context(), mac, "m1"); restarted || err == nil || f.mac.Console.Restarts != before {
		t.Errorf("restarted %t beside another process that does (%v)", restarted, err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if restarted, err := session.RestartLoginwindow(t.Context(), mac, "m1"); !restarted || err != nil {
		t.Fatalf("restarted %t (%v)", restarted, err)
	}
	f.elapse(sessionTimeout)
	if restarted, err := session.RestartLoginwindow(t.Context(), mac, "m1"); restarted || err != nil {
		t.Errorf("restarted %t though a session came meanwhile (%v)", restarted, err)
	}
}

func TestNoAutoLoginNoSession(t *testing.T) {
	f := newFixture(t)
	f.desired.Mac.AutoLogin = false
	f.desired.Secrets = nil
	f.converge()
	f.gone(kcpasswordFile)
	if f.mac.Console.Restarts != 0 {
		t.Error("loginwindow was restarted")
	}
}
