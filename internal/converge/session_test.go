package converge

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

func (f *fixture) fileAttr() macos.Attr { return macos.Attr{Mode: 0o644, Owner: root, Group: wheel} }

func TestScrambledPassword(t *testing.T) {
	data, err := scramblePassword("password")
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(data); got != "0de82150a5d3af8ea3b91f7d" {
		t.Errorf("got %s", got)
	}
	for length, want := range map[int]int{1: 12, 11: 12, 12: 24, 23: 24, 24: 36} {
		data, err := scramblePassword(strings.Repeat("x", length))
		if err != nil || len(data) != want || JudgePassword(data) != passwordUsable {
			t.Errorf("%d characters become %d bytes, %s (%v)", length, len(data), JudgePassword(data), err)
		}
	}
	for _, not := range []string{"", "<sealed>", "a\x00b", "a\nb", "a\r"} {
		if data, err := scramblePassword(not); err == nil || strings.Contains(err.Error(), "sealed>") {
			t.Errorf("%q becomes %x (%v)", not, data, err)
		}
	}
}

func TestStoredPasswordIsJudged(t *testing.T) {
	usable, err := scramblePassword("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	noisy := append(bytes.Clone(usable[:14]), 1, 2, 3) // macOS pads with noise
	for name, c := range map[string]struct {
		data []byte
		want StoredPassword
	}{
		"none":        {nil, passwordMissing},
		"usable":      {usable, passwordUsable},
		"noise after": {noisy, passwordUsable},
		"no end":      {usable[:13], passwordDamaged},
		"empty one":   {[]byte(kcpasswordKey), passwordDamaged},
		"sealed":      {[]byte(sealedPrefix + "\xa3"), passwordSealed},
	} {
		if got := JudgePassword(c.data); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A prepared Mac logs its user in at boot, and now.
func TestRequirement002_PreparedMacLogsIn(t *testing.T) {
	f := newFixture(t)
	o := f.options()
	o.Step = "session"
	if s, failed := f.run(o).FailedStep(); failed {
		t.Fatalf("%s (%s)", s.Detail, s.Class)
	}
	want, err := scramblePassword("correct horse")
	if err != nil {
		t.Fatal(err)
	}
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
	if _, marked := f.mac.Get(document.JournalFile); marked {
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
				if f.mac.Console.Kicks != 0 {
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
	if f.mac.Console.Kicks != 1 {
		t.Errorf("loginwindow was restarted %d times", f.mac.Console.Kicks)
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
	if f.mac.Console.Kicks != 1 {
		t.Error("the session was ended for a file's mode")
	}
}

func TestGuestsAreNotKickedOut(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.LogOut()
	f.mac.Console.Guests = 1 // started outside of a session, by hand
	f.refused("session", document.Wait, "waits until no guest runs")
	f.mac.Console.Guests = 0
	f.later(KickCooldown)
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
	r := f.refused("session", document.Wait, "sealed")
	line, err := document.EncodeReport(r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(line), "wrong") || strings.Contains(f.content(sessionFile), "wrong") {
		t.Error("the password shows")
	}
	f.later(2 * KickCooldown)
	f.refused("session", document.Wait, "this very password")
	f.mac.Reboot()
	f.refused("session", document.Wait, "this very password")
	if f.mac.Console.Refused > 2 { // once by the kick, and once by the boot if it was not sealed yet
		t.Errorf("macOS was given a wrong password %d times", f.mac.Console.Refused)
	}
	f.desired.Secrets.ConsolePassword = "correct horse"
	f.converge()
}

// What was refused is what lay there, not what came along and was not tried yet.
func TestRightPasswordFollowsAWrongOne(t *testing.T) {
	f := newFixture(t)
	data, err := scramblePassword("the vendor's former one")
	if err != nil {
		t.Fatal(err)
	}
	f.mac.Put(kcpasswordFile, data, kcpasswordAttr)
	f.mac.SetDefault(loginwindowDomain, autoLoginUser, "m1")
	f.refused("session", document.Wait, "sealed")
	f.later(KickCooldown)
	f.converge()
	target := &target{Options: f.options()}
	for password, want := range map[string]bool{"the vendor's former one": true, "correct horse": false} {
		if got, err := target.refusedBefore(password); err != nil || got != want {
			t.Errorf("%s refused: %v (%v)", password, got, err)
		}
	}
}

// A person may turn FileVault on while a run is at it.
func TestFileVaultInTheMiddleOfARun(t *testing.T) {
	f := newFixture(t)
	f.mac.Fail = func(call string) error {
		f.mac.System.FileVault = f.mac.System.FileVault || call == "write "+document.JournalFile
		return nil
	}
	f.refused("session", document.Human, "FileVault is on")
	f.gone(kcpasswordFile)
	if f.mac.Console.Kicks != 0 {
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
	f.refused("proof", document.Wait, "sealed")
}

func TestKicksCoolDown(t *testing.T) {
	f := newFixture(t)
	f.mac.Console.NoLogin = true
	f.refused("session", document.Reboot, "waited 30s")
	f.refused("session", document.Retry, "loginwindow was restarted")
	if f.mac.Console.Kicks != 1 {
		t.Errorf("%d kicks", f.mac.Console.Kicks)
	}
	f.later(KickCooldown)
	f.refused("session", document.Reboot, "waited 30s")
	// Another boot has started loginwindow anew: it may be restarted in it.
	f.mac.Console.NeedsKick = true
	f.mac.Reboot()
	f.mac.Console.NoLogin = false
	f.converge()
	if f.mac.Console.Kicks != 3 {
		t.Errorf("%d kicks", f.mac.Console.Kicks)
	}
}

// A run that was cut off right before or after it restarted loginwindow leaves
// that open; a session that is on its way is waited for.
func TestKickOfUnknownOutcome(t *testing.T) {
	f := newFixture(t)
	writes := 0
	f.mac.Fail = func(call string) error {
		if call == "write "+sessionFile {
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
	if f.mac.Console.Kicks != 1 {
		t.Errorf("%d kicks", f.mac.Console.Kicks)
	}
}

// hostd asks for kicks too, and may come while nobody knows of the last one.
func TestKickWaitsForASessionOnItsWay(t *testing.T) {
	for name, comes := range map[string]bool{"on its way": true, "not coming": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.converge()
			f.mac.Console.NeedsKick = !comes
			f.mac.Reboot()
			mac := f.mac.Interfaces()
			note := sessionNote{KickedAt: mac.Clock.Now(), BootSession: f.mac.Boot}
			if err := writeSessionNote(t.Context(), mac.Files, note); err != nil {
				t.Fatal(err)
			}
			if kicked, err := KickLoginwindow(t.Context(), mac, "m1"); err != nil || kicked == comes {
				t.Errorf("kicked %v (%v)", kicked, err)
			}
		})
	}
}

// Converge and hostd may both find no session: one of them restarts loginwindow, and
// the other waits for what comes of it.
func TestTwoDoNotKickAtOnce(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Console.NeedsKick = true
	f.mac.Reboot()
	mac := f.mac.Interfaces()
	other, err := mac.Files.Lock(sessionLock)
	if err != nil {
		t.Fatal(err)
	}
	before := f.mac.Console.Kicks
	if kicked, err := KickLoginwindow(t.Context(), mac, "m1"); kicked || err == nil || f.mac.Console.Kicks != before {
		t.Errorf("kicked %t beside another process that does (%v)", kicked, err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if kicked, err := KickLoginwindow(t.Context(), mac, "m1"); !kicked || err != nil {
		t.Fatalf("kicked %t (%v)", kicked, err)
	}
	f.elapse(sessionTimeout)
	if kicked, err := KickLoginwindow(t.Context(), mac, "m1"); kicked || err != nil {
		t.Errorf("kicked %t though a session came meanwhile (%v)", kicked, err)
	}
}

func TestNoAutoLoginNoSession(t *testing.T) {
	f := newFixture(t)
	f.desired.Mac.AutoLogin = false
	f.desired.Secrets = nil
	f.converge()
	f.gone(kcpasswordFile)
	if f.mac.Console.Kicks != 0 {
		t.Error("loginwindow was restarted")
	}
}
