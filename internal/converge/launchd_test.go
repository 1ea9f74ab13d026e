package converge

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/step"
)

func TestRestartsAreAsGentleAsPossible(t *testing.T) {
	for _, c := range []struct {
		name    string
		arrange func(*fixture)
		want    []string
	}{
		{"nothing changed", func(*fixture) {}, nil},
		{"new build", func(f *fixture) { f.stage("second build") }, []string{"kickstart -k"}},
		{"new configuration", func(f *fixture) { f.desired.Node.MaxVMs = 1 }, []string{"kickstart -k"}},
		{"new token", func(f *fixture) { f.desired.Join.Token = "fedcba.0123456789abcdef" }, []string{"kickstart -k"}},
		{"new permit", func(f *fixture) { f.desired.Join.Permit.ID = "p2" }, []string{"kickstart -k"}},
		{
			"not loaded",
			func(f *fixture) { f.unload() },
			[]string{"enable", "bootstrap"},
		},
		{
			"not loaded, does not start at load",
			func(f *fixture) { f.unload(); f.mac.IdleBootstrap = true },
			[]string{"enable", "bootstrap", "kickstart"},
		},
		{
			"other definition",
			func(f *fixture) {
				f.mac.Put(document.AgentPlist, []byte("old"), step.RootAttr(0o644))
			},
			[]string{"bootout", "enable", "bootstrap"},
		},
		{
			"definition others may write",
			func(f *fixture) {
				f.mac.Put(document.AgentPlist, []byte(f.content(document.AgentPlist)), step.RootAttr(0o666))
			},
			[]string{"bootout", "enable", "bootstrap"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.converge()
			c.arrange(f)
			f.converge()
			if diff := cmp.Diff(c.want, f.did(document.AgentLabel)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// unload takes the agent out of launchd behind converge's back.
func (f *fixture) unload() {
	f.t.Helper()
	if err := (launchd.Control{Mac: f.mac.Interfaces()}).Unload(context.Background(), launchd.AgentJob()); err != nil {
		f.t.Fatal(err)
	}
}

func TestReloadWaitsUntilTheLabelIsGone(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.SettleAfterBootout = 20 * time.Second
	f.mac.Put(document.AgentPlist, []byte("old"), step.RootAttr(0o644))
	f.converge()
	if diff := cmp.Diff([]string{"bootout", "enable", "bootstrap"}, f.did(document.AgentLabel)); diff != "" {
		t.Error(diff)
	}
}

func TestBootstrapIsRetriedWhileBusy(t *testing.T) {
	for _, code := range []int{macos.LaunchdIO, macos.LaunchdLoaded, macos.LaunchdInProgress} {
		f := newFixture(t)
		refusals := 3
		f.mac.Fail = func(call string) error {
			if call != "bootstrap "+document.AgentLabel || refusals == 0 {
				return nil
			}
			refusals--
			return &macos.LaunchdError{Verb: "bootstrap", Code: code}
		}
		f.converge()
	}
}

func TestBootstrapRefusedForGood(t *testing.T) {
	f := newFixture(t)
	tries := 0
	f.mac.Fail = func(call string) error {
		if call == "bootstrap "+document.AgentLabel {
			tries++
			return &macos.LaunchdError{Verb: "bootstrap", Code: 119, Text: "Service is disabled"}
		}
		return nil
	}
	f.refused("launchd", document.Retry, "Service is disabled")
	if tries != 1 {
		t.Errorf("%d tries of a refusal that will not pass", tries)
	}
}

// Requirement 004: a kickstart that did nothing leaves the old process behind; a
// build that is killed at once shows a process on each respawn. Neither may be
// reported as done, or the drift would be forgotten.
func TestRequirement004NoOpKickstart(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.stage("second build")
	f.mac.DeafKickstart = true
	f.refused("launchd", document.Retry, "hostd is build")
}

func TestRequirement004NoOpKickstartAfterNewToken(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.desired.Join.Token = "fedcba.0123456789abcdef"
	f.mac.DeafKickstart = true
	f.refused("launchd", document.Retry, "was not restarted")
	f.mac.DeafKickstart = false
	if got := outcomes(f.converge()); got["credentials"] != document.Unchanged || got["launchd"] != document.Changed {
		t.Errorf("the owed restart is forgotten: %v", got)
	}
}

func TestRequirement004CrashLoop(t *testing.T) {
	for name, dies := range map[string]time.Duration{
		"at once":               time.Millisecond,
		"after its first words": 3 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.converge()
			f.stage("second build")
			f.mac.Program = func(m *macostest.Mac, label string, pid int) macostest.Process {
				p := f.goodJob(m, label, pid)
				p.DiesAfter = dies
				return p
			}
			f.refused("launchd", document.Retry, "")
			f.mac.Program = f.goodJob
			f.converge()
		})
	}
}

func TestWrongAnswersAreUnhealthy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*macostest.Process)
		detail string
	}{
		"silence":       {func(p *macostest.Process) { p.Socket = "" }, "does not answer"},
		"nonsense":      {func(p *macostest.Process) { p.Answer = []byte("hello") }, "not its health"},
		"another pid":   {func(p *macostest.Process) { p.Answer = []byte(`{"pid":1}`) }, "answers for hostd, launchd runs"},
		"answers later": {func(p *macostest.Process) { p.AnswersAfter = time.Hour }, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.mac.Program = func(m *macostest.Mac, label string, pid int) macostest.Process {
				p := f.goodJob(m, label, pid)
				c.change(&p)
				return p
			}
			f.refused("launchd", document.Retry, c.detail)
		})
	}
}

func TestSlowAgentIsAwaited(t *testing.T) {
	f := newFixture(t)
	f.mac.Program = func(m *macostest.Mac, label string, pid int) macostest.Process {
		p := f.goodJob(m, label, pid)
		p.AnswersAfter = 30 * time.Second
		return p
	}
	f.converge()
}

func TestPlistHoldsNothingThatVaries(t *testing.T) {
	a, b := newFixture(t), newFixture(t)
	b.desired.Host.Name, b.desired.Host.Epoch = "other", 9
	b.desired.Node.Labels = map[string]string{"x": "&<>"}
	b.stage("second build")
	a.converge()
	b.converge()
	if diff := cmp.Diff(a.content(document.AgentPlist), b.content(document.AgentPlist)); diff != "" {
		t.Error(diff)
	}
}
