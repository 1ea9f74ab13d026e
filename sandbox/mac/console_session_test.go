package mac

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// autoLogin is the change for a Mac whose image logs in by itself.
func autoLogin(o *Options) { o.AutoLogin = true }

func (b *bench) consoleOwner() string { return b.ok("stat -f %Su /dev/console") }

func (b *bench) awaitSession() {
	b.t.Helper()
	await(b.t, "a console session", func() bool { return b.consoleOwner() == "m1" })
}

// asRoot runs a script that must succeed at the machine itself.
func (b *bench) asRoot(script string) string {
	b.t.Helper()
	out, err := b.AsRoot(b.t.Context(), script)
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(out)
}

// The bytes are those of the password of these tests under the fixed key.
const (
	plantKcpassword = `printf '\036\346\040\121\267\337\251\312\313\326\155\016\354\122' >/etc/kcpassword.next && chmod 0600 /etc/kcpassword.next && mv /etc/kcpassword.next /etc/kcpassword`
	setAutoLogin    = "defaults write /Library/Preferences/com.apple.loginwindow autoLoginUser -string m1"
	// sealedPrefix is the SHA-256 of the bytes 41 fa 37 42 be d9 b9 d4.
	sealedPrefix    = "df6760286283e464b5b28d4433ce5ef75edfd7f2acb3a94c1f584ca86967922b"
	kickLoginwindow = "killall loginwindow"
)

// As of macOS 14.4 launchd restarts no critical process; killing it is the other way.
func TestLoginwindowIsNotRestartedByKickstart(t *testing.T) {
	b := startBench(t, autoLogin)
	b.grant()
	b.awaitSession()
	const kickstart = "launchctl kickstart -k system/com.apple.loginwindow"
	got := b.sh("sudo -n "+kickstart, "")
	if got.rc != 1 || !strings.Contains(got.err, `Could not kickstart service "com.apple.loginwindow": 1: Operation not permitted`) {
		t.Errorf("kickstart -k: %+v", got)
	}
	if got := b.sh("killall loginwindow", ""); got.rc != 1 || b.consoleOwner() != "m1" {
		t.Errorf("the user killed it: %+v", got)
	}
	if err := b.SetSwitches(t.Context(), Switches{Quirks: Quirks{NoLoginwindow: true}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.sh("sudo -n killall loginwindow", ""); got.rc != 1 || !strings.Contains(got.err, "No matching processes") {
		t.Errorf("killed where none runs: %+v", got)
	}
	b.settleSession("where none runs", false)
	const printed = "launchctl print system/com.apple.loginwindow"
	if got := b.ok(printed); !strings.Contains(got, "state = not running") {
		t.Errorf("launchd says of the loginwindow that the boot did not start: %s", got)
	}
	b.asRoot("launchctl kickstart system/com.apple.loginwindow")
	b.awaitSession()
	if got := b.ok(printed); !strings.Contains(got, "state = running") {
		t.Errorf("launchd says of the loginwindow that was started: %s", got)
	}
	f := b.Facts()
	f.OSVersion = "14.3.1"
	if err := b.SetFacts(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	b.asRoot(kickstart)
	b.awaitSession()
}

func TestFreshMacHasNoSession(t *testing.T) {
	b := startBench(t, nil)
	if got := b.consoleOwner(); got != "root" {
		t.Errorf("console: %s", got)
	}
	if got := b.sh("launchctl print gui/501", ""); got.rc != 113 {
		t.Errorf("gui domain: %+v", got)
	}
	got := b.sh("defaults read /Library/Preferences/com.apple.loginwindow autoLoginUser", "")
	if got.rc != 1 || !strings.Contains(got.err, "does not exist") {
		t.Errorf("autoLoginUser: %+v", got)
	}
	got = b.sh("/opt/homebrew/bin/tart clone ghcr.io/x/y:1 vm && /opt/homebrew/bin/tart run vm", "")
	if got.rc != 1 || !strings.Contains(got.err, "VZErrorDomain Code=-9") || !strings.Contains(got.err, "HostKey") {
		t.Errorf("tart run without a session: %+v", got)
	}
}

func TestAutoLoginComesWithAKickAndStays(t *testing.T) {
	b := startBench(t, nil)
	b.asRoot(plantKcpassword + " && " + setAutoLogin + " && " + kickLoginwindow)
	b.awaitSession()
	if got := b.ok("launchctl print gui/501 | grep -c 'session = Aqua'"); got != "1" {
		t.Errorf("gui domain: %q", got)
	}
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.awaitSession()
	if b.PasswordVerifications() != 0 {
		t.Error("a login on the console counted as a check of the account's policy")
	}
}

func TestWrongPasswordSealsKcpassword(t *testing.T) {
	b := startBench(t, func(o *Options) { o.Password = "another one" })
	b.asRoot(plantKcpassword + " && " + setAutoLogin + " && " + kickLoginwindow)
	await(t, "the sealing", func() bool {
		return b.asRoot("dd if=/etc/kcpassword bs=8 count=1 2>/dev/null | shasum -a 256") == sealedPrefix+"  -"
	})
	if got := b.consoleOwner(); got != "root" {
		t.Errorf("console: %s", got)
	}
}

func TestKickEndsGuestsAndSession(t *testing.T) {
	b := startBench(t, autoLogin)
	b.awaitSession()
	ended := make(chan outcome, 1)
	b.ok("/opt/homebrew/bin/tart clone ghcr.io/x/y:1 vm")
	go func() {
		o, err := b.try("/opt/homebrew/bin/tart run vm", "")
		if err != nil {
			o.rc = -1
		}
		ended <- o
	}()
	await(t, "the guest", func() bool { return strings.Contains(b.ok("/opt/homebrew/bin/tart list"), "running") })
	b.asRoot(kickLoginwindow)
	select {
	case o := <-ended:
		if o.rc != 128+int(syscall.SIGKILL) {
			t.Errorf("tart run was not killed: %+v", o)
		}
	case <-time.After(patience):
		t.Fatal("the guest survived its session")
	}
	b.awaitSession()
}

func TestSessionQuirks(t *testing.T) {
	b := startBench(t, autoLogin)
	tests := []struct {
		name         string
		quirks       Quirks
		fileVault    bool
		boot, kicked bool
	}{
		{"needs a kick", Quirks{NeedsKick: true}, false, false, true},
		{"never", Quirks{NoSession: true}, false, false, false},
		{"FileVault", Quirks{}, true, false, false},
		{"slow", Quirks{SessionDelay: 40 * time.Second}, false, true, true},
	}
	for _, tt := range tests {
		if err := b.SetSwitches(t.Context(), Switches{Quirks: tt.quirks}); err != nil {
			t.Fatal(err)
		}
		f := b.Facts()
		f.FileVault = tt.fileVault
		if err := b.SetFacts(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if err := b.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.settleSession(tt.name+", boot", tt.boot)
		b.asRoot(kickLoginwindow)
		b.settleSession(tt.name+", kicked", tt.kicked)
	}
}

// settleSession waits for loginwindow's decision, which it logs.
func (b *bench) settleSession(name string, want bool) {
	b.t.Helper()
	if want {
		b.awaitSession()
		return
	}
	// A session would be there after a twenty-fifth of a second.
	deadline := time.Now().Add(300 * time.Millisecond)
	for time.Now().Before(deadline) {
		if b.consoleOwner() != "root" {
			b.t.Errorf("%s: there is a session", name)
			return
		}
	}
}
