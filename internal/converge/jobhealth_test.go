package converge

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// dying makes the agent of every build but the good one end after a while.
func (f *fixture) dying(good string, after time.Duration) {
	f.mac.Program = func(m *macostest.Mac, label string, pid int) macostest.Process {
		p := f.goodJob(m, label, pid)
		if label == document.AgentLabel && buildOf(m.Resolve(document.CurrentAgent)) != good {
			p.DiesAfter = after
		}
		return p
	}
}

func TestRequirement004_KickstartWhenUnchanged(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.stage("second build")
	f.converge()
	for _, label := range []string{document.HostdLabel, document.AgentLabel} {
		if diff := cmp.Diff([]string{"kickstart -k"}, f.did(label)); diff != "" {
			t.Errorf("%s: %s", label, diff)
		}
	}
}

// A process that lives longer than a short look at it is no proof either: it is
// watched for longer than launchd holds back the next start.
func TestRequirement004_PIDStable(t *testing.T) {
	for _, dies := range []time.Duration{3 * time.Second, 6 * time.Second, 11 * time.Second} {
		t.Run(dies.String(), func(t *testing.T) {
			f := newFixture(t)
			f.converge()
			f.desired.Node.MaxVMs = 1
			f.dying("", dies)
			f.refused("launchd", document.Retry, "does not stay")
		})
	}
}

func TestRequirement004_NoOpKickstart(t *testing.T) {
	f := newFixture(t)
	f.converge()
	good, old := f.desired.Agent.SHA256, f.mac.PID(document.AgentLabel)
	f.stage("second build")
	f.mac.DeafKickstart = true
	r := f.refused("launchd", document.Retry, "hostd is build "+`"`+good)
	if all := f.failures(); len(all) != 0 || r.RolledBack != "" {
		t.Errorf("a build that was never started is blamed: %v, %q", all, r.RolledBack)
	}
	if f.mac.PID(document.AgentLabel) != old {
		t.Fatal("the model restarted the agent")
	}
	f.mac.DeafKickstart = false
	f.converge()
}

// A program whose bytes were changed under its name is killed at each start. The
// roll installs every build as a file of its own, so it comes up; the same bytes
// written in place do not.
func TestRequirement004_CodeSigningCrashLoop(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.stage("second build")
	f.converge()
	slot := programFile(f.desired.Agent.SHA256)
	f.mac.Overwrite(slot, macostest.Build("third build"))
	f.desired.Restart = "again"
	o := f.options()
	o.Step = "launchd"
	r := f.run(o)
	if s, _ := r.FailedStep(); !strings.Contains(s.Detail, "macOS killed it for its code signature") || s.Class != document.Retry {
		t.Errorf("%s: %s", s.Class, s.Detail)
	}
	f.converge() // the slot is filled anew
}

func TestRequirement004_FailedRollKeepsDrift(t *testing.T) {
	f := newFixture(t)
	f.converge()
	good := f.desired.Agent.SHA256
	f.stage("second build")
	f.dying(good, time.Second)
	r := f.refused("launchd", document.Retry, "did not prove itself")
	if r.Exit == document.ExitUnchanged || r.Exit == document.ExitChanged {
		t.Errorf("exit %d reads as done", r.Exit)
	}
	f.mac.Program = f.goodJob
	if r := f.converge(); outcomes(r)["agent"] != document.Changed || outcomes(r)["launchd"] != document.Changed {
		t.Errorf("the drift is forgotten: %v", outcomes(r))
	}
	if got := buildOf(f.mac.Resolve(document.CurrentAgent)); got != f.desired.Agent.SHA256 {
		t.Errorf("runs build %s", got)
	}
}

// The kernel keeps the signature of an inode: new bytes in an old file are killed,
// the same bytes in a new file run. Nothing is signed anew for it.
func TestF08_EveryBuildIsANewFile(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.stage("second build")
	f.converge()
	for _, c := range f.mac.Changes {
		if strings.HasPrefix(c, "sign ") {
			t.Errorf("signed a build that was signed: %s", c)
		}
	}
	slot := programFile(f.desired.Agent.SHA256)
	f.mac.Overwrite(slot, []byte("half a build"))
	f.converge()
	if f.content(slot) != string(macostest.Build("second build")) {
		t.Error("the slot was not filled anew")
	}
	if diff := cmp.Diff([]string{"kickstart -k"}, f.did(document.AgentLabel)); diff != "" {
		t.Errorf("what runs was not started from the new file: %s", diff)
	}
}

func TestF09_NothingThatVariesIsInAPlist(t *testing.T) {
	a, b := newFixture(t), newFixture(t)
	b.desired.Host.Name, b.desired.Host.Epoch, b.desired.Host.ProviderID = "other", 9, "scw-applesilicon://other/1"
	b.desired.Node.Labels = map[string]string{"x": "&<>"}
	b.stage("second build")
	a.converge()
	b.converge()
	for _, name := range []string{document.AgentPlist, document.HostdPlist} {
		if diff := cmp.Diff(a.content(name), b.content(name)); diff != "" {
			t.Error(diff)
		}
	}
}

// Background Task Management counts registrations: an epoch has one a job,
// whatever is rolled afterwards.
func TestF10_OneRegistrationAnEpoch(t *testing.T) {
	f := newFixture(t)
	registrations := 0
	f.mac.Fail = func(call string) error {
		if strings.HasPrefix(call, "bootstrap ") {
			registrations++
		}
		return nil
	}
	for _, build := range []string{"first build", "second build", "third build"} {
		f.stage(build)
		f.converge()
	}
	f.desired.Node.MaxVMs = 1
	f.converge()
	if registrations != len(ourJobs()) {
		t.Errorf("%d registrations of %d jobs", registrations, len(ourJobs()))
	}
}

// A label stays for seconds after bootout; bootstrap meanwhile is refused.
func TestF11_BootoutIsAwaited(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.SettleAfterBootout = 20 * time.Second
	f.mac.Put(document.HostdPlist, []byte("old"), step.RootAttr(0o644))
	f.converge()
	if diff := cmp.Diff([]string{"bootout", "enable", "bootstrap"}, f.did(document.HostdLabel)); diff != "" {
		t.Error(diff)
	}
	if calls := f.did(document.AgentLabel); calls != nil {
		t.Errorf("the agent was touched: %v", calls)
	}
}

func TestHostdStartsFirst(t *testing.T) {
	f := newFixture(t)
	f.mac.Program = func(m *macostest.Mac, label string, pid int) macostest.Process {
		if label == document.HostdLabel {
			return macostest.Process{DiesAfter: time.Second}
		}
		return f.goodJob(m, label, pid)
	}
	f.refused("launchd", document.Retry, "hostd")
	if f.mac.Loaded(document.AgentLabel) {
		t.Error("the agent was started without hostd")
	}
}

func TestLaunchdThatDoesNotStart(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(*macostest.Mac)
		class   document.Class
		detail  string
	}{
		"pended":   {func(m *macostest.Mac) { m.Pended = true }, document.Retry, "reboot the Mac"},
		"disabled": {func(m *macostest.Mac) { m.DisabledJobs[document.AgentLabel] = true; m.StuckDisabled = true }, document.Human, "launchctl enable system/" + document.AgentLabel},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c.arrange(f.mac)
			f.refused("launchd", c.class, c.detail)
		})
	}
}

func TestDisabledJobIsEnabled(t *testing.T) {
	f := newFixture(t)
	f.mac.DisabledJobs[document.AgentLabel] = true
	f.converge()
}

// Background Task Management keeps a job down once it ended. One kickstart is
// tried; a program that ends again is reported with what may hold it.
func TestSuppressedRespawn(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.NoRespawn = true
	f.desired.Node.MaxVMs = 1
	f.dying("", time.Second/2)
	f.refused("launchd", document.Retry, "Background Task Management")
	f.mac.Program = f.goodJob
	f.converge()
}

// What launchd prints is no interface. Words that nobody knows say nothing about
// the job, which can still speak for itself.
func TestCrypticPrintIsUnknownAndNotDown(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Cryptic = true
	if r := f.converge(); r.Exit != document.ExitUnchanged {
		t.Errorf("%v", outcomes(r))
	}
	f.stage("second build")
	f.converge()
	f.stage("third build")
	f.mac.DeafKickstart = true
	f.refused("launchd", document.Retry, "hostd is build")
}

func TestBothPlistsAreWhatLaunchdReads(t *testing.T) {
	f := newFixture(t)
	f.converge()
	hostd := f.content(document.HostdPlist)
	if strings.Contains(hostd, "UserName") {
		t.Error("hostd runs as a user")
	}
	if strings.Contains(hostd, document.LogDir+"/") {
		t.Error("launchd writes as root in a folder of the user's")
	}
	if !strings.Contains(f.content(document.AgentPlist), "<string>m1</string>") {
		t.Error("the agent runs as root")
	}
}

// failing makes a job of every build but the good one end at once.
func (f *fixture) failing(
	inner func(*macostest.Mac, string, int) macostest.Process, failing, good string,
) func(*macostest.Mac, string, int) macostest.Process {
	return func(m *macostest.Mac, label string, pid int) macostest.Process {
		p := inner(m, label, pid)
		if label == failing && buildOf(m.Resolve(document.CurrentAgent)) != good {
			p.DiesAfter = time.Second / 2
		}
		return p
	}
}
