package converge

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/step"
)

func TestFreshMacConverges(t *testing.T) {
	f := newFixture(t)
	r := f.converge()
	if r.Exit != document.ExitChanged || r.Epoch != 3 || r.Build != f.desired.Agent.SHA256 ||
		r.Revision != document.Revision(f.desired) || r.BootSession != f.mac.Boot {
		t.Errorf("report %+v", r)
	}
	if got := f.content(document.CurrentAgent); got != string(macostest.Build("first build")) {
		t.Errorf("current agent holds %q", got)
	}
	if got := f.content(document.AgentLink); got != string(macostest.Build("first build")) {
		t.Errorf("link holds %q", got)
	}
	kept, err := document.DecodeReport([]byte(f.content(document.ReportFile)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, kept); diff != "" {
		t.Errorf("kept report differs: %s", diff)
	}
	if f.mac.PID(document.AgentLabel) == 0 {
		t.Error("no agent runs")
	}
}

func TestConvergedMacIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.converge()
	pid := f.mac.PID(document.AgentLabel)
	r := f.converge()
	if r.Exit != document.ExitUnchanged {
		t.Errorf("exit %d: %v", r.Exit, outcomes(r))
	}
	// The report and the state folder of the lock are rewritten each time.
	want := []string{"mkdir " + document.StateDir, "write " + document.ReportFile}
	if diff := cmp.Diff(want, f.mac.Changes); diff != "" {
		t.Error(diff)
	}
	if f.mac.PID(document.AgentLabel) != pid {
		t.Error("the agent was restarted")
	}
}

func TestOwnersAndModes(t *testing.T) {
	f := newFixture(t)
	f.converge()
	files := f.mac.Interfaces().Files
	for name, want := range map[string]string{
		document.StateDir:                       "root:wheel 0700",
		document.DiskMarkerFile:                 "root:wheel 0600",
		document.ConfigDir:                      "root:staff 0750",
		document.ConfigFile:                     "root:staff 0640",
		document.BootstrapKubeconfig:            "m1:staff 0600",
		document.JoinPermitFile:                 "root:staff 0640",
		document.AgentStateDir:                  "m1:staff 0700",
		document.AgentPlist:                     "root:wheel 0644",
		programFile(f.desired.Agent.SHA256):     "root:wheel 0755",
		installDir(f.desired.Agent.SHA256) + "": "root:wheel 0755",
	} {
		info, err := files.Stat(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Attr.String() != want {
			t.Errorf("%s is %s, want %s", name, info.Attr, want)
		}
	}
}

func TestLooseFolderIsTightened(t *testing.T) {
	f := newFixture(t)
	f.converge()
	loose := macos.Attr{Mode: 0o777, Owner: "m1", Group: "staff"}
	if err := f.mac.Interfaces().Files.MakeDir(context.Background(), "/usr/local/libexec", loose); err != nil {
		t.Fatal(err)
	}
	if got := outcomes(f.converge())["dirs"]; got != document.Changed {
		t.Errorf("dirs %s", got)
	}
}

func TestDiskOfAnotherOwnerIsNotWiped(t *testing.T) {
	mark := func(epoch int64, name string) func(*fixture) {
		return func(f *fixture) {
			data, err := document.EncodeDiskMarker(document.DiskMarker{Epoch: epoch, Name: name})
			if err != nil {
				f.t.Fatal(err)
			}
			f.mac.Put(document.DiskMarkerFile, data, step.RootAttr(0o600))
		}
	}
	for name, arrange := range map[string]func(*fixture){
		"older epoch":     mark(2, "ci-abc12"),
		"newer epoch":     mark(4, "ci-abc12"),
		"another Machine": mark(3, "ci-other"),
		"damaged journal": func(f *fixture) { f.mac.Put(document.DiskMarkerFile, []byte("{"), step.RootAttr(0o700)) },
		"slot without journal": func(f *fixture) {
			for _, dir := range []string{path.Dir(document.InstallDir), document.InstallDir} {
				if err := f.mac.Interfaces().Files.MakeDir(t.Context(), dir, step.RootAttr(0o755)); err != nil {
					t.Fatal(err)
				}
			}
			f.mac.Put(document.InstallDir+"/"+strings.Repeat("0", 64), nil, step.RootAttr(0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			arrange(f)
			r := f.refused("journal", document.Reinstall, document.NotWiped)
			if s, _ := r.FailedStep(); !strings.HasPrefix(s.Detail, document.NotWiped) {
				t.Errorf("the manager does not take it for a disk that was not wiped: %s", s.Detail)
			}
			if got := outcomes(r)["credentials"]; got != document.NotRun {
				t.Errorf("credentials %s", got)
			}
			if _, there := f.mac.Get(document.BootstrapKubeconfig); there {
				t.Error("a secret was written to a disk that was not wiped")
			}
		})
	}
}

// The user of the first run of an epoch is the Mac's until it is wiped: what that
// user owns is not handed to another by a document.
func TestAnotherUserInTheSameEpochIsRefused(t *testing.T) {
	for _, user := range []string{"m2", "M1"} {
		f := newFixture(t)
		f.converge()
		f.desired.Host.User = user
		f.refused("journal", document.Human, `set up for the user "m1"`)
		f.nothingDone()
	}
}

// A mark that leaves out whose the disk is is not taken for one of anybody's.
func TestADiskMarkerThatLeavesSomethingOutIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		leaveOut func(*document.DiskMarker)
		class    document.Class
		reason   string
	}{
		"user":       {func(m *document.DiskMarker) { m.User = "" }, document.Human, "set up for the user"},
		"providerID": {func(m *document.DiskMarker) { m.ProviderID = "" }, document.Reinstall, `not wiped: the disk belongs to ""`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.converge()
			host := f.desired.Host
			marker := document.DiskMarker{Epoch: host.Epoch, Name: host.Name, ProviderID: host.ProviderID, User: host.User}
			c.leaveOut(&marker)
			data, err := document.EncodeDiskMarker(marker)
			if err != nil {
				t.Fatal(err)
			}
			f.mac.Put(document.DiskMarkerFile, data, step.RootAttr(0o600))
			f.refused("journal", c.class, c.reason)
			f.nothingDone()
		})
	}
}

// nothingDone fails unless the last run left no more than its lock and its report.
func (f *fixture) nothingDone() {
	f.t.Helper()
	for _, change := range f.mac.Changes {
		if change != "mkdir "+document.StateDir && change != "write "+document.ReportFile {
			f.t.Errorf("did %s", change)
		}
	}
}

func TestEpochStaysMarked(t *testing.T) {
	f := newFixture(t)
	f.converge()
	before := f.content(document.DiskMarkerFile)
	if got := outcomes(f.converge())["journal"]; got != document.Unchanged || f.content(document.DiskMarkerFile) != before {
		t.Errorf("journal %s", got)
	}
}

func TestPlanChangesNothing(t *testing.T) {
	f := newFixture(t)
	o := f.options()
	o.Plan = true
	r := f.run(o)
	if len(f.mac.Changes) != 0 {
		t.Errorf("changed %v", f.mac.Changes)
	}
	if r.Exit != document.ExitChanged {
		t.Errorf("exit %d of a plan that has something to do", r.Exit)
	}
	for _, s := range r.Steps {
		// These four have nothing to do on a fixture that asks for none of it.
		switch s.Name {
		case "fitness", "storage", "tart", "proof":
			continue
		}
		if s.Outcome != document.Planned || s.Detail == "" {
			t.Errorf("step %s: %s %q", s.Name, s.Outcome, s.Detail)
		}
		if strings.Contains(s.Detail, f.desired.Join.Token) {
			t.Errorf("step %s shows the token", s.Name)
		}
	}
	f.converge()
	if r := f.run(o); r.Exit != document.ExitUnchanged {
		t.Errorf("exit %d of a plan that has nothing to do: %v", r.Exit, outcomes(r))
	}
}

func TestOneStep(t *testing.T) {
	f := newFixture(t)
	o := f.options()
	o.Step = "names"
	r := f.run(o)
	if diff := cmp.Diff(map[string]document.Outcome{"names": document.Changed}, outcomes(r)); diff != "" {
		t.Error(diff)
	}
	o.Step = "nonsense"
	if _, err := Run(context.Background(), o, f.desired); err == nil {
		t.Error("an unknown step runs")
	}
}

func TestOneRunAtATime(t *testing.T) {
	f := newFixture(t)
	f.converge()
	held, err := f.mac.Interfaces().Files.Lock(lockFile)
	if err != nil {
		t.Fatal(err)
	}
	f.refused("lock", document.Retry, "locked by another process")
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	f.converge()
}

// TestEveryCutIsMended fails each change of a fresh converge, and of a roll-out
// with new credentials, in turn, and expects the next run to reach the end state
// of an undisturbed one.
func TestEveryCutIsMended(t *testing.T) {
	prepared := map[string]func(*testing.T) *fixture{
		"fresh": newFixture,
		"roll": func(t *testing.T) *fixture {
			f := newFixture(t)
			f.converge()
			f.stage("second build")
			f.desired.Join.Token = "fedcba.0123456789abcdef"
			f.desired.Node.MaxVMs = 1
			return f
		},
	}
	for name, prepare := range prepared {
		undisturbed := prepare(t)
		undisturbed.converge()
		calls := undisturbed.mac.Changes
		for i, call := range calls {
			t.Run(fmt.Sprintf("%s/%d %s", name, i, call), func(t *testing.T) {
				f := prepare(t)
				n := 0
				f.mac.Fail = func(string) error {
					n++
					if n > i {
						return errCut
					}
					return nil
				}
				// What a run that was cut off says does not matter, it went unheard.
				if _, err := Run(context.Background(), f.options(), f.desired); err != nil {
					t.Fatal(err)
				}
				f.mac.Fail = nil
				f.converge()
				f.sameAs(undisturbed)
				if r := f.converge(); r.Exit != document.ExitUnchanged {
					t.Errorf("a third run still changes: %v", outcomes(r))
				}
			})
		}
	}
}

func (f *fixture) sameAs(other *fixture) {
	f.t.Helper()
	for _, name := range []string{
		document.CurrentAgent, document.ConfigFile, document.BootstrapKubeconfig, document.JoinPermitFile, document.AgentPlist,
	} {
		if got, want := f.content(name), other.content(name); got != want {
			f.t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	for _, j := range ourJobs() {
		if _, owes := f.mac.Get(j.pending); owes {
			f.t.Errorf("a restart is still owed to %s", j.label)
		}
	}
}

func TestTokenIsInNoReport(t *testing.T) {
	f := newFixture(t)
	f.mac.Fail = func(call string) error {
		if call == "write "+document.BootstrapKubeconfig {
			return errCut
		}
		return nil
	}
	line, err := document.EncodeReport(f.run(f.options()))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(line), f.desired.Join.Token) {
		t.Errorf("the report shows the token: %s", line)
	}
}

func TestNames(t *testing.T) {
	for name, c := range map[string]struct{ node, label string }{
		"plain":  {"ci-abc12", "ci-abc12"},
		"dots":   {"ci.abc.example", "ci-abc-example"},
		"long":   {strings.Repeat("a", 62) + ".bc", strings.Repeat("a", 62)},
		"longer": {strings.Repeat("a", 100), strings.Repeat("a", 63)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.desired.Host.Name = c.node
			f.converge()
			n := f.mac.Interfaces().Names
			for which, want := range map[macos.Name]string{
				macos.HostName: c.node, macos.ComputerName: c.node, macos.LocalHostName: c.label,
			} {
				if got, err := n.Get(context.Background(), which); err != nil || got != want {
					t.Errorf("%s is %q, want %q (%v)", which, got, want, err)
				}
			}
		})
	}
}

func TestBonjourMayNumberAName(t *testing.T) {
	f := newFixture(t)
	f.converge()
	n := f.mac.Interfaces().Names
	for got, want := range map[string]document.Outcome{
		"ci-abc12-2": document.Unchanged, "ci-abc12-x": document.Changed, "other-2": document.Changed,
	} {
		if err := n.Set(context.Background(), macos.LocalHostName, got); err != nil {
			t.Fatal(err)
		}
		if o := outcomes(f.converge())["names"]; o != want {
			t.Errorf("%s: names %s, want %s", got, o, want)
		}
	}
}

func TestBuildThatArrivedDamaged(t *testing.T) {
	f := newFixture(t)
	f.mac.Put(f.self, macostest.Build("first b"), step.RootAttr(0o755))
	f.refused("agent", document.Retry, "upload it again")
	if _, there := f.mac.Get(programFile(f.desired.Agent.SHA256)); there {
		t.Error("a slot was filled with other bytes")
	}
}

// The console user, who may run converge of the installed build as root, may not
// have a build of their own installed by it.
func TestInstalledBuildInstallsNoOther(t *testing.T) {
	f := newFixture(t)
	f.converge()
	installed := f.mac.Resolve(document.CurrentAgent)
	f.stage("second build")
	f.self = installed
	f.refused("agent", document.Retry, "is not build")
	if f.mac.Resolve(document.CurrentAgent) != installed {
		t.Error("a staged build was installed without the fleet's signature")
	}
}

func TestDamagedInstallDirIsFilledAgain(t *testing.T) {
	f := newFixture(t)
	f.converge()
	slot := programFile(f.desired.Agent.SHA256)
	f.mac.Put(slot, []byte("first b"), step.RootAttr(0o755))
	if got := outcomes(f.converge())["agent"]; got != document.Changed {
		t.Errorf("agent %s", got)
	}
	if f.content(slot) != string(macostest.Build("first build")) {
		t.Errorf("slot holds %q", f.content(slot))
	}
}

func TestNoJoinLeavesCredentialsAlone(t *testing.T) {
	f := newFixture(t)
	f.converge()
	before := f.content(document.BootstrapKubeconfig)
	f.desired.Join = nil
	if r := f.converge(); r.Exit != document.ExitUnchanged || f.content(document.BootstrapKubeconfig) != before {
		t.Errorf("%v", outcomes(r))
	}
}

// An agent that finds a new token looks for its permit.
func TestThePermitIsThereBeforeTheToken(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.inOrder("write "+document.JoinPermitFile, "write "+document.BootstrapKubeconfig)
}

func TestLeaveTakesAllBack(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Put(document.AgentCertDir, nil, step.RootAttr(0o700))
	f.mac.Put(document.AgentCertDir+"/client.pem", []byte("key"), step.RootAttr(0o700))
	r := leave(context.Background(), f.options())
	if r.Exit != document.ExitChanged || r.Epoch != 3 || r.Verb != document.VerbLeave {
		t.Errorf("report %+v", r)
	}
	f.gone(document.BootstrapKubeconfig, document.JoinPermitFile, document.AgentCertDir+"/client.pem", document.AgentPlist)
	if f.mac.Loaded(document.AgentLabel) {
		t.Error("the agent is loaded")
	}
	if r := leave(context.Background(), f.options()); r.Exit != document.ExitUnchanged {
		t.Errorf("leaving again: %v", outcomes(r))
	}
	f.converge()
}

func (f *fixture) gone(names ...string) {
	f.t.Helper()
	for _, name := range names {
		if _, there := f.mac.Get(name); there {
			f.t.Errorf("%s is still there", name)
		}
	}
}

func TestLeaveGoesOnAfterAFailure(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.SettleAfterBootout = 1 << 62
	r := leave(context.Background(), f.options())
	if s, failed := r.FailedStep(); !failed || s.Name != "agent" || r.Exit != document.ExitRetry {
		t.Errorf("%v", outcomes(r))
	}
	f.gone(document.BootstrapKubeconfig, document.JoinPermitFile)
}

func TestLeaveOnAForeignMac(t *testing.T) {
	m := macostest.New()
	r := leave(context.Background(), Options{Mac: m.Interfaces()})
	if r.Exit != document.ExitUnchanged {
		t.Errorf("%v", outcomes(r))
	}
}
