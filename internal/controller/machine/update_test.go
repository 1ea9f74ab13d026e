package machine

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/internal/rollout"
)

// turn gives the Machine its turn as the profile controller does; an empty
// revision takes it away.
func (w *world) turn(name, revision string) {
	w.t.Helper()
	m := w.machine(name)
	m.Annotations = maps.Clone(m.Annotations)
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[infrav1.UpdateAnnotation] = revision
	if revision == "" {
		delete(m.Annotations, infrav1.UpdateAnnotation)
	}
	w.update(m)
}

// profiled has a Machine that runs under a profile, whose labels then change.
func profiled(t *testing.T) (w *world, wanted string) {
	t.Helper()
	objects := pair("mac-1")
	objects[1].(*infrav1.ScalewayAppleSiliconMachine).Spec.ProfileRef = &infrav1.ProfileReference{Name: "builders"}
	profile := &infrav1.MacNodeProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builders"}}
	w = newWorld(t, append(objects, poolHost(serverID), profile)...)
	w.running("mac-1")
	if got := w.reason("mac-1", infrav1.UpToDateCondition); got != infrav1.UpToDateCondition {
		t.Fatalf("UpToDate = %s after the bootstrap", got)
	}
	w.get(client.ObjectKeyFromObject(profile), profile)
	profile.Spec.Node.Labels = map[string]infrav1.LabelValue{"team": "ios"}
	w.update(profile)
	w.settle("mac-1")
	return w, rollout.Revision(profile, document.Agent{SHA256: w.r.Agent.SHA256, Version: w.r.Agent.Version}, nil)
}

func (w *world) condition(kind string) metav1.Condition {
	w.t.Helper()
	for _, c := range w.machine("mac-1").Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

func TestDriftWaitsForItsUpdatePermit(t *testing.T) {
	w, wanted := profiled(t)
	if got := w.reason("mac-1", infrav1.UpToDateCondition); got != infrav1.ReasonDrifted || len(w.mac.desired) != 1 {
		t.Fatalf("UpToDate = %s after %d pushes; want Drifted, and no push before the turn", got, len(w.mac.desired))
	}
	w.turn("mac-1", "another revision")
	w.settle("mac-1")
	if len(w.mac.desired) != 1 {
		t.Fatal("pushed in the turn for another revision")
	}
	w.turn("mac-1", wanted)
	w.settle("mac-1")
	m := w.machine("mac-1")
	if len(w.mac.desired) != 2 || m.Status.Applied.Revision != wanted || m.Status.Update.ProvedAt == nil {
		t.Fatalf("%d pushes, applied %+v, update %+v", len(w.mac.desired), m.Status.Applied, m.Status.Update)
	}
	last := w.mac.desired[1]
	if last.Join != nil || last.Node.Labels["team"] != "ios" {
		t.Errorf("desired = %v; want the label, and no token", last)
	}
	data, err := w.mac.signers[1].Converge(last)
	w.signedForTheMac(document.VerbConverge, data, err)
	before := w.countWrites()
	w.settle("mac-1")
	if w.countWrites() != before || len(w.mac.desired) != 2 {
		t.Errorf("%d writes and %d pushes more, while the turn stands", w.countWrites()-before, len(w.mac.desired)-2)
	}
}

// A change of the profile reaches the Mac that runs, under the Machine that it has. One of the
// Machine's own spec, which says what Mac it wants, does nothing to the Mac that it got.
func TestContract_AProfileChangesAMacInPlace(t *testing.T) {
	w, wanted := profiled(t)
	before := w.machine("mac-1")
	w.turn("mac-1", wanted)
	w.settle("mac-1")
	m := w.machine("mac-1")
	if len(w.mac.desired) != 2 || m.Status.Applied.Revision != wanted {
		t.Fatalf("%d pushes, applied %+v; want the profile's change", len(w.mac.desired), m.Status.Applied)
	}
	if m.UID != before.UID || m.Spec.ProviderID != before.Spec.ProviderID || *m.Spec.HostRef != *before.Spec.HostRef || w.mac.left != 0 {
		t.Errorf("spec = %+v, told to leave %d times; want the Mac kept", m.Spec, w.mac.left)
	}
	m.Spec.Type, m.Spec.OS, m.Spec.Zone = "M4-M", "sequoia", "fr-par-7"
	w.update(m)
	w.settle("mac-1")
	if m := w.machine("mac-1"); len(w.mac.desired) != 2 || *m.Spec.HostRef != *before.Spec.HostRef || w.host(hostName).Spec.Release != nil {
		t.Errorf("%d pushes, hostRef = %+v; want a change of its spec to do nothing", len(w.mac.desired), m.Spec.HostRef)
	}
}

// Requirement 004: a push that fails keeps the drift, is counted, and backs off.
// The Machine stays bootstrapped, and its host's record is left alone.
func TestRequirement004_AFailedUpdateKeepsTheDrift(t *testing.T) {
	w, wanted := profiled(t)
	before := w.machine("mac-1").Status.Applied
	w.mac.set(func(f *fakeMac) {
		report := document.Report{RolledBack: strings.Repeat("b", 64), Steps: []document.StepReport{{Name: "agent", Outcome: document.Failed, Class: document.Retry, Detail: "not the pid"}}}
		f.convErr = &remote.Failed{Report: report, Class: document.Retry}
		f.reports = []document.Report{report, report}
	})
	w.turn("mac-1", wanted)
	w.settle("mac-1")
	m := w.machine("mac-1")
	before.Revision = "" // it is at none before one is proved
	if m.Status.Applied != before || m.Status.Update.Failures != 1 || m.Status.Update.Revision != wanted || m.Status.Update.LastFailedAt == nil {
		t.Fatalf("applied %+v, update %+v; want one failure and nothing applied", m.Status.Applied, m.Status.Update)
	}
	c := w.condition(infrav1.UpToDateCondition)
	if c.Reason != infrav1.ReasonUpdateFailed || !strings.Contains(c.Message, "agent") || !strings.Contains(c.Message, "went back from build bbbbbbbbbbbb") {
		t.Errorf("UpToDate = %+v", c)
	}
	if m.Status.Phase != machine.PhaseRunning || w.host(hostName).Spec.Record.Bootstrap.Attempts != 0 {
		t.Errorf("phase %s, %d attempts of the claim; an update is no bootstrap", m.Status.Phase, w.host(hostName).Spec.Record.Bootstrap.Attempts)
	}
	pushes := len(w.mac.desired)
	w.clock.SetTime(w.clock.Now().Add(rollout.Backoff(1) - time.Second))
	w.settle("mac-1")
	if len(w.mac.desired) != pushes {
		t.Error("tried again before its time")
	}
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	w.settle("mac-1")
	if got := w.machine("mac-1").Status.Update.Failures; len(w.mac.desired) != pushes+1 || got != 2 {
		t.Errorf("%d more pushes, %d failures; want one more of each", len(w.mac.desired)-pushes, got)
	}
	w.mac.set(func(f *fakeMac) { f.convErr = nil })
	w.clock.SetTime(w.clock.Now().Add(rollout.Backoff(2)))
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Status.Applied.Revision != wanted || m.Status.Update.Failures != 0 {
		t.Errorf("applied %+v, update %+v after it worked", m.Status.Applied, m.Status.Update)
	}
}

func TestDeferredUpdateIsNoFailure(t *testing.T) {
	for name, fault := range map[string]func(*fakeMac){
		"guests run": func(f *fakeMac) {
			f.convErr = &remote.Failed{Class: document.Wait, Report: document.Report{Steps: []document.StepReport{{Name: "network", Outcome: document.Failed, Class: document.Wait, Detail: "waits until no guest runs"}}}}
		},
		"not reached": func(f *fakeMac) { f.dialErr = &remote.Unreachable{Phase: remote.PhaseSession, Err: errPlain} },
	} {
		t.Run(name, func(t *testing.T) {
			w, wanted := profiled(t)
			w.mac.set(fault)
			w.turn("mac-1", wanted)
			w.settle("mac-1")
			update := w.machine("mac-1").Status.Update
			if update.Failures != 0 || update.HeldAt == nil || w.reason("mac-1", infrav1.UpToDateCondition) != infrav1.ReasonHeld {
				t.Errorf("update = %+v, UpToDate = %s; want it held", update, w.reason("mac-1", infrav1.UpToDateCondition))
			}
			if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.BootstrappedCondition {
				t.Errorf("Bootstrapped = %s", got)
			}
		})
	}
}

// What comes of a turn is recorded as after its beginning, also where that was written by a
// clock that is ahead.
func TestWhatComesOfATurnIsRecordedAfterItsBeginning(t *testing.T) {
	for name, fault := range map[string]func(*fakeMac){
		"proved": func(*fakeMac) {},
		"failed": func(f *fakeMac) {
			f.convErr = &remote.Failed{Class: document.Human, Report: document.Report{Steps: []document.StepReport{{Name: "network", Outcome: document.Failed, Class: document.Human}}}}
		},
		"held": func(f *fakeMac) { f.dialErr = &remote.Unreachable{Phase: remote.PhaseSession, Err: errPlain} },
	} {
		t.Run(name, func(t *testing.T) {
			w, wanted := profiled(t)
			w.mac.set(fault)
			began := w.clock.Now().Add(10 * time.Minute).UTC().Truncate(time.Second)
			m := w.machine("mac-1")
			m.Annotations = map[string]string{infrav1.UpdateAnnotation: wanted, infrav1.TurnAnnotation: `{"at":"` + began.Format(time.RFC3339) + `"}`}
			w.update(m)
			w.settle("mac-1")
			u := w.machine("mac-1").Status.Update
			recorded := map[string]*metav1.Time{"proved": u.ProvedAt, "failed": u.LastFailedAt, "held": u.HeldAt}[name]
			if u.Revision != wanted || recorded == nil || recorded.Time.Before(began) {
				t.Errorf("%+v, and the turn began at %s", u, began)
			}
		})
	}
}

// A turn that is taken back while the Mac is at it does not lose what came of it.
func TestPushOutlivingItsUpdatePermitCounts(t *testing.T) {
	w, wanted := profiled(t)
	w.mac.set(func(f *fakeMac) { f.onConverge = func() { w.turn("mac-1", "") } })
	w.turn("mac-1", wanted)
	w.settle("mac-1")
	if got := w.machine("mac-1").Status.Applied.Revision; got != wanted {
		t.Errorf("applied = %.12s, want %.12s", got, wanted)
	}
}

// Nothing is mended on a Mac whose profile is gone, and there is no profile that could say so: its
// Machine is not Ready, of which the alert for Machines that are stuck tells.
func TestAProfileThatIsGoneIsReported(t *testing.T) {
	w, _ := profiled(t)
	w.delete(&infrav1.MacNodeProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builders"}})
	w.settle("mac-1")
	if c := w.condition(infrav1.ReadyCondition); c.Reason != infrav1.ReasonUnknownProfile || c.Status != metav1.ConditionFalse {
		t.Errorf("Ready = %+v", c)
	}
}

// What an earlier visit waited for does not stay with a Mac that runs.
func TestAnInvalidProfileLeavesAMacBootstrapped(t *testing.T) {
	w, _ := profiled(t)
	m := w.machine("mac-1")
	conditions.Set(m, metav1.Condition{Type: infrav1.BootstrappedCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonWaitingForCluster})
	w.updateStatus(m)
	w.editProfile(func(s *infrav1.MacNodeProfileSpec) { s.Network.Subnet = "10.0.0.1/8" })
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.BootstrappedCondition {
		t.Errorf("Bootstrapped = %s", got)
	}
}

func TestInvalidProfileIsReported(t *testing.T) {
	w, _ := profiled(t)
	profile := &infrav1.MacNodeProfile{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "builders"}, profile)
	profile.Spec.Network.Subnet = "10.0.0.1/8"
	w.update(profile)
	w.settle("mac-1")
	c := w.condition(infrav1.UpToDateCondition)
	if c.Reason != infrav1.ReasonInvalidProfile || !strings.Contains(c.Message, "subnet") || w.machine("mac-1").Status.Phase != machine.PhaseRunning {
		t.Errorf("UpToDate = %+v in phase %s", c, w.machine("mac-1").Status.Phase)
	}
}

// rest settles also where only a check, which writes nothing when it begins, has
// run meanwhile.
func (w *world) rest() {
	w.t.Helper()
	w.settle("mac-1")
	w.settle("mac-1")
}

func TestDriftIsFoundAndMended(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.checks = 6 * time.Hour
	w.restart()
	w.running("mac-1")
	revision := w.machine("mac-1").Status.Applied.Revision
	if w.mac.plans != 0 {
		t.Fatal("looked at right after it was proved")
	}
	w.mac.set(func(f *fakeMac) {
		f.planned = document.Report{Steps: []document.StepReport{
			{Name: "names", Outcome: document.Unchanged},
			{Name: "firewall", Outcome: document.Planned},
			{Name: "session", Outcome: document.Failed, Class: document.Wait},
		}}
	})
	w.clock.SetTime(w.clock.Now().Add(6 * time.Hour))
	w.rest()
	m := w.machine("mac-1")
	if w.mac.plans != 1 || !slices.Equal(m.Status.Drift.Steps, []string{"firewall"}) || w.reason("mac-1", infrav1.UpToDateCondition) != infrav1.ReasonDrifted {
		t.Fatalf("%d looks, drift %+v, UpToDate %s", w.mac.plans, m.Status.Drift, w.reason("mac-1", infrav1.UpToDateCondition))
	}
	if len(w.mac.desired) != 1 {
		t.Fatal("mended before its turn")
	}
	w.turn("mac-1", revision)
	w.rest()
	m = w.machine("mac-1")
	if len(w.mac.desired) != 2 || len(m.Status.Drift.Steps) != 0 || w.reason("mac-1", infrav1.UpToDateCondition) != infrav1.UpToDateCondition {
		t.Errorf("%d pushes, drift %+v", len(w.mac.desired), m.Status.Drift)
	}
}

// A check that fails is made again before long, and says nothing about the Mac.
func TestAFailedCheckIsNoDrift(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.checks = 6 * time.Hour
	w.restart()
	w.running("mac-1")
	w.mac.set(func(f *fakeMac) { f.planErr = errPlain })
	w.clock.SetTime(w.clock.Now().Add(6 * time.Hour))
	w.rest()
	if got := w.mac.plans; got != 1 || w.machine("mac-1").Status.Drift.Steps != nil {
		t.Fatalf("%d looks, drift %+v", got, w.machine("mac-1").Status.Drift)
	}
	w.clock.SetTime(w.clock.Now().Add(29 * time.Minute))
	w.rest()
	if w.mac.plans != 1 {
		t.Error("looked again before its time")
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.rest()
	if w.mac.plans != 2 {
		t.Error("not looked at again")
	}
}

// What two checks of one second find is the same record: nothing is written, so no
// watch says when to look again.
func TestACheckThatWritesNothingIsNotTheLast(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.checks = 6 * time.Hour
	w.restart()
	w.running("mac-1")
	w.clock.SetTime(w.clock.Now().Add(6 * time.Hour))
	w.visit("mac-1")
	w.awaitJobs(types.NamespacedName{Namespace: namespace, Name: "mac-1"})
	m := w.machine("mac-1")
	now := metav1.NewTime(w.clock.Now())
	m.Status.Drift.CheckedAt = &now
	w.updateStatus(m)
	before := w.countWrites()
	result := w.visit("mac-1")
	if w.mac.plans != 1 || w.countWrites() != before {
		t.Fatalf("%d looks, %d writes; want one and none", w.mac.plans, w.countWrites()-before)
	}
	if result.RequeueAfter < 4*time.Hour {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
}

func TestTheConsolePasswordGoesWithThePush(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	if got := w.mac.desired[0].Secrets; got == nil || got.ConsolePassword != "secret-1" {
		t.Error("the first bootstrap carries no console password")
	}
	w = newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.mac.sudo = true
	w.settle("mac-1")
	w.stage("mac-1", "<sealed>")
	w.settle("mac-1")
	if len(w.mac.desired) == 0 || w.mac.desired[0].Secrets != nil {
		t.Error("a sealed password was sent")
	}
}

func TestAMacThatIsNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		facts push.Facts
		want  string
	}{
		"a virtual machine": {push.Facts{VirtualMachine: true}, infrav1.ReasonWrongHardware},
		"FileVault":         {push.Facts{FileVault: true}, infrav1.ReasonFileVault},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
			w.mac.facts = c.facts
			w.settle("mac-1")
			w.stage("mac-1", "secret-1")
			w.settle("mac-1")
			if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != c.want || len(w.mac.passwords) != 0 {
				t.Errorf("Bootstrapped = %s, %d passwords sent; want %s and none", got, len(w.mac.passwords), c.want)
			}
		})
	}
}

func TestTheProofRebootIsWaitedFor(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.mac.facts.BootSession = "first"
	w.mac.reports = []document.Report{{Rebooting: true, BootSession: "first"}, {BootSession: "second"}}
	dialled := 0
	w.mac.onConverge = func() { dialled = 0 }
	w.mac.onProbe = func() {
		if dialled++; dialled == 3 { // the old boot answers twice on its way down
			w.mac.facts.BootSession = "second"
		}
	}
	w.running("mac-1")
	if got := len(w.mac.desired); got != 2 || w.mac.desired[1].Join == nil {
		t.Fatalf("converged %d times, want again with the token after the reboot", got)
	}
}

func TestAMacThatStaysAwayAfterItsRebootAsksForAnother(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.mac.facts.BootSession = "first"
	w.mac.reports = []document.Report{{Rebooting: true, BootSession: "first"}}
	w.settle("mac-1")
	w.stage("mac-1", "secret-1")
	w.settle("mac-1")
	m := w.machine("mac-1")
	if e := m.Status.Bootstrap.LastError; e == nil || e.Step != push.StepReboot || e.Class != string(document.Reboot) {
		t.Errorf("last error = %+v, want the reboot", e)
	}
	if len(w.tokens()) != 0 {
		t.Error("the token of a Mac that did not come back is still good")
	}
}

// signedForTheMac expects an instruction that the Mac of the world takes: for it, in
// this epoch, and by the key that the first document brought.
func (w *world) signedForTheMac(verb string, data []byte, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := document.DecodeSigned(bytes.NewReader(data))
	if err != nil || !got.SignedBy(w.mac.desired[0].UpgradeKey) {
		w.t.Fatalf("signed by the fleet's key: %t (%v)", got.SignedBy(w.mac.desired[0].UpgradeKey), err)
	}
	h := w.host(hostName)
	if got.Verb != verb || got.Name != "mac-1" || got.ProviderID != host.ProviderID(zone, serverID) || got.Epoch != h.Spec.Record.InstallEpoch {
		w.t.Errorf("%s for %s, epoch %d; the host is at epoch %d", got, got.ProviderID, got.Epoch, h.Spec.Record.InstallEpoch)
	}
	if got.Counter < w.clock.Now().UnixMicro() {
		w.t.Errorf("counter %d is below the time", got.Counter)
	}
}
