package stage0

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/sandbox/mac"
)

// maxWire is the most that a fresh Mac may be sent, in bytes.
const maxWire = 15_000_000

// A Mac that a person prepares has a session, and no mark of a fleet: the fleet that
// takes it finds it as fresh as any.
func TestRequirement002_PreparedByHandIsNoFleets(t *testing.T) {
	b := newBench(t)
	s := b.session()
	b.probe(s)
	if err := s.Grant(t.Context(), secret(password)); err != nil {
		t.Fatal(err)
	}
	build := programs.builds[0]
	if _, err := s.Receive(t.Context(), build); err != nil {
		t.Fatal(err)
	}
	alone := b.desired(build)
	alone.Join, alone.UpgradeKey, alone.Mac.AutoLogin = nil, nil, true
	r, err := s.ConvergeStep(t.Context(), build.SHA256, "session", alone)
	var failed *remote.Failed
	if !errors.As(err, &failed) || failed.Class != document.Wait {
		t.Errorf("without a password: %+v, %v", r, err)
	}
	alone.Secrets = &document.Secrets{ConsolePassword: password}
	if r, err = s.ConvergeStep(t.Context(), build.SHA256, "session", alone); err != nil || !r.Changed() {
		t.Fatalf("%+v, %v", r, err)
	}
	f := b.probe(s)
	if f.ConsoleUser != "m1" || !f.Sudo || f.DiskMarker != nil || f.CurrentAgent != "" {
		t.Errorf("%+v, journal %+v", f, f.DiskMarker)
	}
	alone.Secrets = nil
	if r, err = s.ConvergeStep(t.Context(), build.SHA256, "session", alone); err != nil || r.Changed() {
		t.Errorf("looked at again: %+v, %v", r, err)
	}
	b.showsNoSecret(password)
	b.converge(s, b.desired(build))
}

func TestFreshMacTakesFourExecutionsAndOneVerification(t *testing.T) {
	b := newBench(t)
	s := b.session()
	f := b.probe(s)
	if missing := f.Missing(); len(missing) != 0 || len(f.Unknown) != 0 || f.Sudo || f.DiskMarker != nil || f.CurrentAgent != "" {
		t.Errorf("missing %v of %+v", missing, f)
	}
	if err := s.Grant(t.Context(), secret(password)); err != nil {
		t.Fatal(err)
	}
	build := programs.builds[0]
	if sent, err := s.Receive(t.Context(), build); err != nil || sent != build.PackedSize() || sent > maxWire {
		t.Fatalf("sent %d of %d, at most %d are due: %v", sent, build.PackedSize(), maxWire, err)
	}
	d := b.desired(build)
	outcomes := b.converge(s, d)
	for _, step := range []string{"dirs", "journal", "names", "agent", "config", "credentials", "launchd", "sudo"} {
		if outcomes[step] != document.Changed {
			t.Errorf("step %s: %q", step, outcomes[step])
		}
	}
	if n := b.PasswordVerifications(); n != 1 {
		t.Errorf("%d verifications", n)
	}
	f = b.probe(s)
	if f.Sudo || !f.SudoAgent || f.CurrentAgent != build.SHA256 || f.DiskMarker != nil || len(f.Unknown) != 0 {
		t.Errorf("afterwards: %+v", f)
	}
	if text, _ := b.read(document.DiskMarkerFile); !strings.Contains(text, d.Host.Name) {
		t.Errorf("the journal is %q", text)
	}
	b.showsNoSecret(password, d.Join.Token)
}

// showsNoSecret looks at all arguments of all commands that ran.
func (b *bench) showsNoSecret(secrets ...string) {
	b.t.Helper()
	for _, e := range b.Transcript() {
		line := strings.Join(e.Argv, " ")
		if slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(line, s) }) {
			b.t.Errorf("a secret is an argument of %s", e.Argv[0])
		}
	}
}

func TestConvergedMacTakesOneExecutionAndChangesNothing(t *testing.T) {
	b, _, d := prepared(t)
	s := b.session()
	r, err := s.ConvergeInstalled(t.Context(), d, signer(d))
	if err != nil || r.Exit != document.ExitUnchanged {
		t.Errorf("exit %d, %v: %+v", r.Exit, err, r.Steps)
	}
	if r.Build != d.Agent.SHA256 || r.Epoch != 1 || r.Revision != document.Revision(d) || r.BootSession == "" {
		t.Errorf("report %+v", r)
	}
	kept, there := b.read(document.ReportFile)
	if !there {
		t.Fatal("no report is kept")
	}
	if got, err := document.DecodeReport([]byte(kept)); err != nil || cmp.Diff(r, got) != "" {
		t.Errorf("the kept report differs: %v %s", err, cmp.Diff(r, got))
	}
}

func TestNewBuildRestartsTheAgentInPlace(t *testing.T) {
	b, s, d := prepared(t)
	before := len(b.launchctl("bootstrap"))
	build := programs.builds[1]
	if _, err := s.Receive(t.Context(), build); err != nil {
		t.Fatal(err)
	}
	d.Agent = document.Agent{SHA256: build.SHA256, Version: "v0.0.1"}
	for step, outcome := range b.converge(s, d) {
		want := document.Unchanged
		if slices.Contains([]string{"agent", "config", "launchd"}, step) {
			want = document.Changed
		}
		if outcome != want {
			t.Errorf("step %s: %s, want %s", step, outcome, want)
		}
	}
	if after := len(b.launchctl("bootstrap")); after != before {
		t.Errorf("%d new registrations with launchd", after-before)
	}
	if f := b.probe(s); f.CurrentAgent != build.SHA256 || len(f.InstalledBuilds) != 2 {
		t.Errorf("%+v", f)
	}
}

// launchctl lists the runs of a verb of launchctl.
func (b *bench) launchctl(verb string) [][]string {
	var all [][]string
	for _, e := range b.Transcript() {
		if len(e.Argv) > 1 && strings.HasSuffix(e.Argv[0], "launchctl") && e.Argv[1] == verb {
			all = append(all, e.Argv)
		}
	}
	return all
}

func TestRebootKeepsTheMacConverged(t *testing.T) {
	b, s, d := prepared(t)
	before := b.probe(s).BootSession
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = b.session()
	if after := b.probe(s).BootSession; after == before {
		t.Error("the boot session did not change")
	}
	for step, outcome := range b.converge(s, d) {
		// Both jobs may still be starting: the agent is restarted then, and the
		// firewall is loaded by the step and not by hostd.
		if outcome != document.Unchanged && step != "launchd" && step != "firewall" {
			t.Errorf("step %s: %s", step, outcome)
		}
	}
}

// A Mac ends the connection before the command returns that reboots it: the report that
// came before is the answer, and the next boot is converged.
func TestTheReportOfTheProofRebootIsItsAnswer(t *testing.T) {
	b := newBench(t)
	s := b.session()
	before := b.probe(s).BootSession
	if err := s.Grant(t.Context(), secret(password)); err != nil {
		t.Fatal(err)
	}
	d := b.desired(programs.builds[0])
	d.Mac.ProofReboot = true
	if _, err := s.Receive(t.Context(), programs.builds[0]); err != nil {
		t.Fatal(err)
	}
	r, err := s.Converge(t.Context(), d.Agent.SHA256, d, signer(d))
	if err != nil || !r.Rebooting || r.BootSession != before {
		t.Fatalf("rebooting %t, boot %s of %s (%v)", r.Rebooting, r.BootSession, before, err)
	}
	awaitMoment(t, "another boot", func() bool {
		var err error
		if s, err = b.dial(); err != nil {
			return false
		}
		f, err := s.Probe(t.Context())
		return err == nil && f.BootSession != before
	})
	if outcome := b.converge(s, d)["proof"]; outcome != document.Changed {
		t.Errorf("the proof is %s", outcome)
	}
}

func TestLeaveTakesAllBack(t *testing.T) {
	b, s, d := prepared(t)
	r, err := s.Leave(t.Context(), signer(d))
	if err != nil || !r.Changed() {
		t.Errorf("%v: %+v", err, r)
	}
	for _, name := range []string{
		document.BootstrapKubeconfig, document.JoinPermitFile, document.AgentCertDir + "/x", document.AgentPlist,
	} {
		if _, there := b.read(name); there {
			t.Errorf("%s is still there", name)
		}
	}
	if _, there := b.read(document.DiskMarkerFile); !there {
		t.Error("the mark of the epoch is gone")
	}
	b.converge(s, d)
}

func TestMacThatWasNotWipedIsRefused(t *testing.T) {
	b, s, d := prepared(t)
	d.Host.Epoch, d.Host.Name, d.Join.Token = 2, "ci-next1", "fedcba.0123456789abcdef"
	_, err := s.Converge(t.Context(), d.Agent.SHA256, d, signer(d))
	var failed *remote.Failed
	if !errors.As(err, &failed) || failed.Class != document.Reinstall {
		t.Fatalf("got %v", err)
	}
	if step, _ := failed.Report.FailedStep(); step.Name != "journal" {
		t.Errorf("step %s failed", step.Name)
	}
	if text, _ := b.read(document.BootstrapKubeconfig); strings.Contains(text, d.Join.Token) {
		t.Error("the new owner's token was written")
	}
}

func TestReinstalledMacShowsAnotherHostKey(t *testing.T) {
	b, _, d := prepared(t)
	if err := b.Erase(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Install(t.Context(), mac.Install{AuthorizedKeys: []string{b.authorizedKey()}}); err != nil {
		t.Fatal(err)
	}
	_, err := b.dial()
	var mismatch *remote.HostKeyMismatch
	if !errors.As(err, &mismatch) || mismatch.Want != b.pin || mismatch.Got == mismatch.Want {
		t.Fatalf("got %v", err)
	}
	b.pin = remote.Pin{}
	s := b.session()
	if f := b.probe(s); f.Sudo || f.DiskMarker != nil || f.CurrentAgent != "" || len(f.Staged) != 0 {
		t.Errorf("a trace is left: %+v", f)
	}
	if err := s.Grant(t.Context(), secret(password)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(t.Context(), programs.builds[0]); err != nil {
		t.Fatal(err)
	}
	d.Host.Epoch, d.Host.Name = 2, "ci-next1"
	b.converge(s, d)
}

func TestWrongPasswordCostsOneVerification(t *testing.T) {
	b := newBench(t)
	s := b.session()
	for i, p := range []secret{"wrong", "<sealed>"} {
		var refused *remote.GrantRefused
		if err := s.Grant(t.Context(), p); !errors.As(err, &refused) || refused.Outcome != remote.PasswordRejected {
			t.Errorf("%s: got %v", p, err)
		}
		if n := b.PasswordVerifications(); n != i+1 {
			t.Errorf("%d verifications after %d attempts", n, i+1)
		}
	}
	if f := b.probe(s); f.Sudo || b.PasswordVerifications() != 2 {
		t.Errorf("sudo %v, %d verifications", f.Sudo, b.PasswordVerifications())
	}
}
