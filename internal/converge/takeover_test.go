package converge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/step"
	"github.com/macfleet/macfleet/internal/converge/takeover"
)

const formerPlist = "/Library/LaunchDaemons/dev.tuist.tart-kubelet.plist"

// formerMac is a Mac that the first system runs, with a guest.
func formerMac(t *testing.T) *fixture {
	f := newFixture(t)
	if r := f.run(Options{Mac: f.mac.Interfaces(), Self: f.self, Step: "session"}); r.Exit != document.ExitChanged {
		t.Fatalf("no session: %+v", r.Steps)
	}
	attr := step.RootAttr(0o644)
	for _, label := range append(formerLabels(), formerAgentLabel, "com.example.backup") {
		f.mac.Put(daemonsDir+"/"+label+".plist", []byte("<plist><dict><key>Label</key><string>"+label+"</string><key>ProgramArguments</key><array><string>"+document.AgentLink+"</string></array></dict></plist>"), attr)
		f.mac.Load(label)
	}
	for _, name := range append(formerFiles(), "/etc/tart-kubelet", "/usr/local/bin/other") {
		f.mac.Put(name, []byte("old"), attr)
	}
	f.mac.Put(document.AgentLink, []byte("the first system's agent"), step.RootAttr(0o755))
	f.mac.Put(pfConf, []byte("anchor \"com.apple/*\"\nanchor \"tuist.runners\"\n"), attr)
	f.mac.PF.PutTable(takeover.PacketFilterAnchor, "vm_sources", true)
	f.mac.Console.Guests = 1
	f.desired.Mac.ProofReboot = true
	return f
}

func TestTakeOverRetiresKnownNamesOnly(t *testing.T) {
	f := formerMac(t)
	f.desired.Host.TakeOver = true
	r := f.converge()
	i := slices.IndexFunc(r.Steps, func(s document.StepReport) bool { return s.Name == "take-over" })
	if s := r.Steps[i]; s.Outcome != document.Changed || s.Detail != "launch daemons of others, left alone: com.example.backup" {
		t.Errorf("%s: %q", s.Outcome, s.Detail)
	}
	for _, label := range append(formerLabels(), formerAgentLabel) {
		if f.mac.Loaded(label) {
			t.Errorf("%s is loaded", label)
		}
		f.gone(daemonsDir + "/" + label + ".plist")
	}
	f.gone(append(formerFiles(), formerAgentDir)...)
	if !f.mac.Loaded("com.example.backup") || f.content("/usr/local/bin/other") != "old" {
		t.Error("something of another name was touched")
	}
	if r.Rebooting || f.mac.Console.Guests != 1 {
		t.Errorf("rebooting %t, %d guests: want them to live", r.Rebooting, f.mac.Console.Guests)
	}
	if f.mac.Resolve(document.AgentLink) == document.AgentLink || f.content(document.AgentLink) == "the first system's agent" {
		t.Error("its program is still in the place of ours")
	}
	f.content(document.JoinPermitFile)
	if s := f.converge().Steps[i]; s.Outcome != document.Unchanged || s.Detail == "" {
		t.Errorf("again: %s %q", s.Outcome, s.Detail)
	}
}

// Its agent is stopped when everything that ours needs is there, and before ours
// starts: both at once would start the same Pods.
func TestTheFirstSystemsAgentStopsLast(t *testing.T) {
	f := formerMac(t)
	f.desired.Host.TakeOver = true
	f.converge()
	at := func(change string) int { return slices.Index(f.mac.Changes, change) }
	stopped, started := at("bootout "+formerAgentLabel), at("bootstrap "+document.AgentLabel)
	for _, before := range []string{"write " + document.ConfigFile, "write " + document.JoinPermitFile, "write " + document.BootstrapKubeconfig} {
		if n := at(before); n < 0 || n > stopped {
			t.Errorf("%s at %d, its agent stopped at %d", before, n, stopped)
		}
	}
	if stopped < 0 || started < stopped || at("remove "+formerPlist) < started {
		t.Errorf("stopped at %d, ours started at %d, its job removed at %d:\n%s", stopped, started, at("remove "+formerPlist), strings.Join(f.mac.Changes, "\n"))
	}
}

// Ours does not come up: then the first system's goes on, with all that it needs.
func TestTheFirstSystemsAgentComesBack(t *testing.T) {
	f := formerMac(t)
	f.desired.Host.TakeOver = true
	f.dying("", time.Second)
	f.refused("launchd", document.Retry, "the first system's agent runs again")
	if !f.mac.Loaded(formerAgentLabel) || f.mac.Loaded(document.AgentLabel) {
		t.Errorf("its agent loaded: %t, ours: %t", f.mac.Loaded(formerAgentLabel), f.mac.Loaded(document.AgentLabel))
	}
	if f.content(document.AgentLink) != "the first system's agent" || f.content(formerAgentDir) != "old" {
		t.Error("what it needs is gone")
	}
	f.mac.Program = f.goodJob
	f.converge()
	if f.mac.Loaded(formerAgentLabel) || !f.mac.Loaded(document.AgentLabel) {
		t.Error("the next run did not take over")
	}
}

// loads are the agents that launchd has.
func (f *fixture) loads() []string {
	return slices.DeleteFunc([]string{formerAgentLabel, document.AgentLabel}, func(label string) bool { return !f.mac.Loaded(label) })
}

// within reports whether the effect that comes next is after the one and not after the
// other.
func within(done []string, from, to string) bool {
	i := slices.Index(done, from)
	return i >= 0 && !slices.Contains(done[i:], to)
}

// The power is cut before each effect of a take-over. A boot starts one agent, never both:
// they would start the same Pods. It finds a firewall to load for it, too, and the next run
// takes the Mac over.
func TestABootInATakeOverStartsOneAgent(t *testing.T) {
	for name, arrange := range map[string]func(*fixture){
		"that succeeds": func(*fixture) {},
		"that fails":    func(f *fixture) { f.dying("", time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			taken := func() *fixture {
				f := formerMac(t)
				f.desired.Host.TakeOver = true
				arrange(f)
				return f
			}
			undisturbed := taken()
			undisturbed.run(undisturbed.options())
			effects := append(slices.Clone(undisturbed.mac.Changes), "the end")
			for i, effect := range effects {
				f := taken()
				f.dieAt(i, counters{}, func() { f.run(f.options()) })
				f.mac.Fail = nil
				f.mac.Reboot()
				f.oneAgentAfterABoot("cut before "+effect, effects[:i])
				f.mac.Program = f.goodJob
				f.untilConverged()
				f.tookOver("cut before " + effect)
			}
		})
	}
}

// oneAgentAfterABoot looks at what a boot started. In the very switch it is none: two
// labels cannot be switched at once, and the next push starts ours.
func (f *fixture) oneAgentAfterABoot(when string, done []string) {
	f.t.Helper()
	want := 1
	if within(done, "disable "+formerAgentLabel, "write "+document.AgentPlist) || within(done, "remove "+document.AgentPlist, "enable "+formerAgentLabel) {
		want = 0
	}
	if all := f.loads(); len(all) != want {
		f.t.Errorf("%s, a boot starts %q", when, all)
	}
	// pfctl refuses a pf.conf as a whole whose file is gone, and with it the call of our anchor.
	_, there := f.mac.Get("/etc/pf.anchors/" + takeover.PacketFilterAnchor)
	if conf := f.content(pfConf); !there && strings.Contains(conf, takeover.PacketFilterAnchor) {
		f.t.Errorf("%s, %s names a file that is gone", when, pfConf)
	}
	if gone := f.formerFence(); len(gone) > 0 && !f.mac.Loaded(document.HostdLabel) {
		f.t.Errorf("%s, a boot loads no firewall: hostd is not there, and gone are %q", when, gone)
	}
}

// tookOver: ours is all there is, and nothing keeps the first system from being installed
// again.
func (f *fixture) tookOver(when string) {
	f.t.Helper()
	if all := f.loads(); !slices.Equal(all, []string{document.AgentLabel}) || f.mac.DisabledJobs[formerAgentLabel] {
		f.t.Errorf("%s, converged: %q run, the first system's is switched off: %t", when, all, f.mac.DisabledJobs[formerAgentLabel])
	}
	f.gone(append(formerFiles(), formerPlist, formerAgentDir)...)
}

// Two agents that an older build of ours left loaded.
func TestTheFirstSystemsAgentBesideOursGoes(t *testing.T) {
	f := formerMac(t)
	f.desired.Host.TakeOver = true
	plist := f.content(formerPlist)
	f.converge()
	ours := f.mac.PID(document.AgentLabel)
	f.mac.Put(formerPlist, []byte(plist), step.RootAttr(0o644))
	f.mac.Load(formerAgentLabel)
	f.converge()
	f.tookOver("beside ours")
	if f.mac.PID(document.AgentLabel) != ours {
		t.Error("ours was restarted for it")
	}
}

// A Mac that is half taken over goes back as it was.
func TestUninstallGivesTheFirstSystemsAgentBack(t *testing.T) {
	whole := formerMac(t)
	whole.desired.Host.TakeOver = true
	whole.converge()
	f := formerMac(t)
	f.desired.Host.TakeOver = true
	f.dieAt(slices.Index(whole.mac.Changes, "remove "+formerPlist), counters{}, func() { f.run(f.options()) })
	f.mac.Reboot() // nothing holds the lock any more
	f.mac.Fail = nil
	if s, failed := f.uninstall(true).FailedStep(); failed {
		t.Errorf("step %s: %s", s.Name, s.Detail)
	}
	f.mac.Reboot()
	if all := f.loads(); !slices.Equal(all, []string{formerAgentLabel}) {
		t.Errorf("a boot starts %q", all)
	}
	if gone := f.formerFence(); len(gone) > 0 || f.content(document.AgentLink) != "the first system's agent" || f.content(formerAgentDir) != "old" {
		t.Errorf("gone: its program, its kubeconfig, or %q", gone)
	}
}

// formerFence says what is gone of the first system's firewall. All of it is needed for
// its rules to come back after a boot.
func (f *fixture) formerFence() []string {
	var gone []string
	for _, name := range append(formerFirewallFiles(), daemonsDir+"/"+formerFirewallLabel+".plist") {
		if _, there := f.mac.Get(name); !there {
			gone = append(gone, name)
		}
	}
	if conf, _ := f.mac.Get(pfConf); !strings.Contains(string(conf), takeover.PacketFilterAnchor) {
		gone = append(gone, "its lines in "+pfConf)
	}
	return gone
}

// Its agent goes on when the take-over fails, and so does the firewall around its
// guests: nothing of ours that a boot starts is there to load other rules.
func TestTheFirstSystemsFirewallStaysUntilOursIsThereAfterABoot(t *testing.T) {
	for name, call := range map[string]string{
		"before the firewall": "subnet",
		"at the firewall":     loadOurs,
		"after the firewall":  "write " + document.ConfigFile,
		"at our first job":    "bootstrap " + document.HostdLabel,
	} {
		t.Run(name, func(t *testing.T) {
			f := formerMac(t)
			f.desired.Host.TakeOver = true
			cut := false
			f.mac.Fail = func(made string) error {
				if made == call {
					cut = true
					return errCut
				}
				return nil
			}
			f.run(f.options())
			if !cut {
				t.Fatalf("the run never came to %s", call)
			}
			if gone := f.formerFence(); len(gone) > 0 || !f.mac.Loaded(formerFirewallLabel) || len(f.mac.PF.Anchor(takeover.PacketFilterAnchor)) == 0 {
				t.Errorf("gone: %q; its job loaded: %t; its rules in force: %q", gone, f.mac.Loaded(formerFirewallLabel), f.mac.PF.Anchor(takeover.PacketFilterAnchor))
			}
			f.mac.Fail = nil
			f.converge()
			if f.mac.Loaded(formerFirewallLabel) || len(f.mac.PF.Anchor(takeover.PacketFilterAnchor)) > 0 {
				t.Error("the next run left it in force")
			}
			f.armed()
		})
	}
}

// By one belief about pf its tables keep ours from being loaded. Then they go first; what
// brings them back stays.
func TestTablesOfTheFirstSystemMakeWay(t *testing.T) {
	f := formerMac(t)
	f.desired.Host.TakeOver = true
	f.mac.PF.PersistIsBusy = true
	f.mac.Fail = func(call string) error {
		if call == "write "+document.ConfigFile {
			return errCut
		}
		return nil
	}
	f.refused("config", document.Retry, errCut.Error())
	f.armed()
	if gone := f.formerFence(); len(gone) > 0 {
		t.Errorf("gone: %q", gone)
	}
}

// A table that cannot be removed holds back neither our rules nor our agent.
func TestTheFirstSystemsTableThatStaysHoldsNothingBack(t *testing.T) {
	f := formerMac(t)
	f.desired.Host.TakeOver = true
	f.mac.PF.PutTable("", "vm_sources", false)
	f.mac.PF.Pin("", "vm_sources")
	f.refused("former-firewall", document.Reboot, "vm_sources")
	f.armed()
	if f.mac.Loaded(formerAgentLabel) || !f.mac.Loaded(document.AgentLabel) || !f.mac.Loaded(document.HostdLabel) {
		t.Error("our jobs do not run in the place of its agent")
	}
	f.mac.Reboot()
	f.converge()
	f.gone(formerFirewallFiles()...)
}

// On a Mac of the pool any of it proves that the disk was not wiped.
func TestTracesOfTheFirstSystemAreNotWiped(t *testing.T) {
	for name, put := range map[string]func(*macostest.Mac){
		"its agent's job": func(m *macostest.Mac) { m.Put(formerPlist, []byte("x"), step.RootAttr(0o600)) },
		"any of its jobs": func(m *macostest.Mac) {
			m.Put("/Library/LaunchDaemons/dev.tuist.runner-egress.a.plist", []byte("x"), step.RootAttr(0o600))
		},
		"its kubeconfig":   func(m *macostest.Mac) { m.Put(formerAgentDir, []byte("x"), step.RootAttr(0o600)) },
		"its agent's file": func(m *macostest.Mac) { m.Put(document.AgentLink, []byte("x"), step.RootAttr(0o755)) },
		"all of it, loaded": func(m *macostest.Mac) {
			m.Put(formerPlist, []byte("x"), step.RootAttr(0o600))
			m.Load(formerAgentLabel)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			put(f.mac)
			f.refused("journal", document.Reinstall, document.NotWiped+"the first system's /")
			f.nothingDone()
		})
	}
}
