package converge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/step"
)

func (f *fixture) uninstall(force bool) document.Report {
	f.mac.Changes = nil
	return uninstall(context.Background(), f.options(), force)
}

func TestUninstallTakesAllBack(t *testing.T) {
	f := newFixture(t)
	f.sudoers("m1-nopasswd", broadRule)
	f.keyed('a')
	f.converge()
	f.mac.MountRAM(document.AgentRAMDisk)
	r := f.uninstall(false)
	if s, failed := r.FailedStep(); failed || r.Exit != document.ExitChanged || r.Epoch != 3 {
		t.Fatalf("step %s: %s; exit %d", s.Name, s.Detail, r.Exit)
	}
	f.gone(
		document.AgentPlist, document.HostdPlist, document.CurrentAgent, document.AgentLink, document.ConfigFile,
		document.BootstrapKubeconfig, lastGoodFile, sudoersFile("m1"), "/etc/kcpassword",
	)
	for _, j := range ourJobs() {
		if f.mac.Loaded(j.label) {
			t.Errorf("%s is loaded", j.label)
		}
	}
	if last := f.mac.Changes[len(f.mac.Changes)-2:]; last[0] != "remove "+sudoersFile("m1") {
		t.Errorf("the sudo rule was not the last to go: %v", last)
	}
	r = f.uninstall(false)
	if s, failed := r.FailedStep(); failed {
		t.Errorf("again: step %s: %s", s.Name, s.Detail)
	}
	f.converge()
}

// The settings of the SSH server name the file of the keys, so they go first: a cut in
// between shuts nobody out.
func TestUninstallLeavesNoSSHSettingsWithoutTheirKeys(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.uninstall(false)
	f.inOrder("remove "+sshdDropIn, "remove "+document.AuthorizedKeysFile)
}

// Nobody gets a disk that takes a new key by uninstalling: it belongs to its epoch,
// its Machine and its fleet until it is wiped.
func TestUninstallLeavesWhoseTheDiskIs(t *testing.T) {
	f := newFixture(t)
	fleet := f.keyed('a')
	f.converge()
	first := f.signed(f.signer(fleet).Converge(f.desired))
	f.instructed(f.options(), first)
	f.uninstall(false)
	for _, name := range []string{document.DiskMarkerFile, document.UpgradeKeyFile, document.CounterFile} {
		if info, err := f.mac.Interfaces().Files.Stat(t.Context(), name); err != nil || info.Attr != step.RootAttr(0o600) {
			t.Errorf("%s is %s (%v)", name, info.Attr, err)
		}
	}
	own := f.keyed('z')
	f.desired.Host.Epoch++
	f.refused("journal", document.Reinstall, document.NotWiped)
	f.desired.Host.Epoch--
	f.converge()
	f.stage("second build")
	if s, _ := f.upgrade(own).FailedStep(); s.Name != "signature" {
		t.Errorf("a build that another key signed: step %q failed: %s", s.Name, s.Detail)
	}
	if r := f.upgrade(fleet); r.Exit != document.ExitChanged {
		t.Errorf("the fleet's own build: %v", outcomes(r))
	}
	if r := f.instructed(f.options(), first); r.Counter == 0 {
		t.Errorf("what was taken before it was uninstalled is taken again: %v", outcomes(r))
	}
}

// The installed build's verbs are root's without a password, and wait for what they
// are given. One that waited while the Mac was uninstalled does nothing with it: its
// right went with its install dir.
func TestVerbsThatWaitedForUninstallDoNothing(t *testing.T) {
	for name, verb := range map[string]func(f *fixture, o Options) document.Report{
		"converge": func(f *fixture, o Options) document.Report { return f.run(o) },
		"upgrade": func(f *fixture, o Options) document.Report {
			f.stage("evil build")
			return f.instructed(o, f.signed(f.signer(f.keyed('z')).Upgrade(f.desired.Agent.SHA256)))
		},
		"signed converge": func(f *fixture, o Options) document.Report {
			return f.instructed(o, f.signed(f.signer(f.keyed('z')).Converge(f.desired)))
		},
		"leave":     func(f *fixture, o Options) document.Report { return leave(f.t.Context(), o) },
		"uninstall": func(f *fixture, o Options) document.Report { return uninstall(f.t.Context(), o, false) },
	} {
		for how, self := range map[string]func(f *fixture) string{
			"slot": func(f *fixture) string { return f.mac.Resolve(document.CurrentAgent) },
			"link": func(*fixture) string { return document.CurrentAgent },
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				f := newFixture(t)
				f.keyed('a')
				f.converge()
				waiting := f.options()
				waiting.Self = self(f)
				f.uninstall(false)
				f.mac.Changes = nil
				f.keyed('z')
				r := verb(f, waiting)
				s, _ := r.FailedStep()
				if s.Name != "lock" || s.Class != document.Retry || !strings.Contains(s.Detail, "was removed after it was started") {
					t.Errorf("failed step %q (%s): %s", s.Name, s.Class, s.Detail)
				}
				f.nothingDone()
				// The lock was given back.
				f.desired.UpgradeKey = nil
				f.stage("first build")
				f.converge()
			})
		}
	}
}

func TestUninstallWaitsForGuests(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Console.Guests = 1
	r := f.uninstall(false)
	if s, _ := r.FailedStep(); s.Class != document.Wait || !strings.Contains(s.Detail, "waits until no guest runs") {
		t.Errorf("%s: %s", s.Class, s.Detail)
	}
	if slices.ContainsFunc(f.mac.Changes, func(c string) bool { return strings.HasPrefix(c, "remove") }) {
		t.Errorf("removed something: %v", f.mac.Changes)
	}
	if r := f.uninstall(true); r.Exit != document.ExitChanged {
		t.Errorf("by force: %v", outcomes(r))
	}
}

func TestUninstallGoesOnAndNamesLeftovers(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Fail = func(call string) error {
		if call == "remove "+document.InstallDir {
			return errCut
		}
		return nil
	}
	r := f.uninstall(false)
	last := r.Steps[len(r.Steps)-1]
	if r.Exit != document.ExitRetry || last.Name != "leftovers" || !strings.Contains(last.Detail, document.InstallDir) {
		t.Errorf("exit %d, %s: %s", r.Exit, last.Name, last.Detail)
	}
	f.gone(document.AgentPlist, sudoersFile("m1"))
	f.content(document.ConfigFile) // it tells the next run what to take back
	f.mac.Fail = nil
	if s, failed := f.uninstall(false).FailedStep(); failed {
		t.Errorf("again: step %s: %s", s.Name, s.Detail)
	}
	f.gone(document.CurrentAgent, document.ConfigFile)
}

// A run that is cut is run again, and still knows what is to be taken back: the user is
// not left logged in at boot, nor his password on the disk.
func TestUninstallThatIsCutIsFinishedByTheNext(t *testing.T) {
	undisturbed := newFixture(t)
	undisturbed.converge()
	undisturbed.uninstall(false)
	effects := slices.Clone(undisturbed.mac.Changes)
	for i, effect := range effects {
		f := newFixture(t)
		f.converge()
		f.dieAt(i, counters{}, func() { f.uninstall(false) })
		f.mac.Fail = nil
		if s, failed := f.uninstall(false).FailedStep(); failed {
			t.Errorf("cut before %s, then step %s: %s", effect, s.Name, s.Detail)
		}
		f.notLoggedIn("cut before " + effect)
		f.gone(document.ConfigFile, document.CurrentAgent, sudoersFile("m1"))
	}
}

// What could not be taken back is named, and taken back by the next run.
func TestUninstallThatFailedAtTheSessionIsFinishedByTheNext(t *testing.T) {
	for _, call := range []string{"remove " + kcpasswordFile, "defaults delete " + loginwindowDomain + " " + autoLoginUser} {
		f := newFixture(t)
		f.converge()
		failed := false
		f.mac.Fail = func(made string) error {
			if made == call {
				failed = true
				return errCut
			}
			return nil
		}
		r := f.uninstall(false)
		if s, _ := r.FailedStep(); !failed || s.Name != "session" {
			t.Errorf("%s: step %q failed", call, s.Name)
		}
		last := r.Steps[len(r.Steps)-1]
		if _, there := f.mac.Get(kcpasswordFile); strings.Contains(last.Detail, kcpasswordFile) != there {
			t.Errorf("%s: %s: %s", call, last.Name, last.Detail)
		}
		f.mac.Fail = nil
		if s, failed := f.uninstall(false).FailedStep(); failed {
			t.Errorf("%s, then step %s: %s", call, s.Name, s.Detail)
		}
		f.notLoggedIn(call)
		f.gone(document.ConfigFile)
	}
}

func (f *fixture) notLoggedIn(when string) {
	f.t.Helper()
	_, stored := f.mac.Get(kcpasswordFile)
	if user, set := f.mac.Default(loginwindowDomain, autoLoginUser); stored || set {
		f.t.Errorf("%s: password stored %t, %q is logged in at boot", when, stored, user)
	}
}

// The automatic login of a Mac whose profile leaves the session alone is somebody else's.
func TestUninstallLeavesThePersonsAutomaticLogin(t *testing.T) {
	f := newFixture(t)
	f.desired.Mac.AutoLogin = false
	f.converge()
	f.mac.Put(kcpasswordFile, macostest.ScrambledPassword("correct horse"), kcpasswordAttr)
	if s, failed := f.uninstall(false).FailedStep(); failed {
		t.Errorf("step %s: %s", s.Name, s.Detail)
	}
	f.content(kcpasswordFile)
}

func TestUninstallOfALostConfiguration(t *testing.T) {
	f := newFixture(t)
	f.converge()
	files := f.mac.Interfaces().Files
	if err := files.Remove(document.ConfigFile); err != nil {
		t.Fatal(err)
	}
	f.uninstall(true)
	f.gone(sudoersFile("m1"))
	f.converge()
	if err := errors.Join(files.Remove(document.ConfigFile), files.Remove(document.DiskMarkerFile)); err != nil {
		t.Fatal(err)
	}
	o := f.options()
	if s, failed := uninstall(context.Background(), o, true).FailedStep(); !failed || s.Class != document.Human {
		t.Errorf("%s (%s): %s", s.Name, s.Class, s.Detail)
	}
	o.Invoker = "m1"
	uninstall(context.Background(), o, true)
	f.gone(sudoersFile("m1"))
}
