package host

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// The event of a status that this manager has just written tells it nothing; whoever else
// writes wakes the host, also where an event tells of both at once.
func TestAStatusOfOursWakesNobody(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.claim("m-1", "t-1")
	before := w.host()
	w.must(w.step())
	wakes := func(before *host.Host) bool {
		return w.r.statuses.news().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: w.host()})
	}
	if wakes(before) {
		t.Error("its own status wakes the host")
	}
	older := before.DeepCopy()
	older.ResourceVersion = "1"
	if !wakes(older) {
		t.Error("what changed before its own status, and is seen with it, does not wake the host")
	}
	if !wakes(w.host()) {
		t.Error("the informer's resync does not wake the host")
	}
	between := w.host()
	between.Spec.Release = &infrav1.Release{Token: "t-1"}
	if !w.r.statuses.news().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: between}) {
		t.Error("a release that came before its own status was written, and is seen with it, does not wake the host")
	}
	before = w.host()
	h := w.host()
	h.Status = infrav1.ScalewayAppleSiliconHostStatus{}
	w.must(w.client.Status().Update(w.ctx, h))
	if !wakes(before) {
		t.Error("a status that was wiped does not wake the host")
	}
}

// What pushes note of a Mac is for other pushes; a release in the same event is not.
func TestWhatPushesNoteWakesNoHost(t *testing.T) {
	before := &host.Host{}
	before.Spec.Record.InstallEpoch = 1
	for name, c := range map[string]struct {
		change func(h *host.Host)
		wakes  bool
	}{
		"a pin":          {func(h *host.Host) { h.Spec.Record.HostKey = &infrav1.HostKey{SHA256: "x"} }, false},
		"hardware":       {func(h *host.Host) { h.Spec.Record.Hardware = &infrav1.HostHardware{Serial: "x"} }, false},
		"an attempt":     {func(h *host.Host) { h.Spec.Record.PasswordAttempts = []infrav1.PasswordAttempt{{Epoch: 1}} }, false},
		"a registration": {func(h *host.Host) { h.Spec.Record.Registration = &infrav1.RegistrationRecord{} }, false},
		"a token":        {func(h *host.Host) { h.Spec.Record.Bootstrap.TokenID = "x" }, false},
		"a resync":       {func(h *host.Host) { h.ResourceVersion = "1" }, true},
		"a wipe":         {func(h *host.Host) { h.Spec.Record.Wipe.Generation = 1 }, true},
		"an epoch":       {func(h *host.Host) { h.Spec.Record.InstallEpoch = 2 }, true},
		"a detachment":   {func(h *host.Host) { h.Spec.Record.DetachedAt = &metav1.MicroTime{} }, true},
		"a request":      {func(h *host.Host) { h.Spec.Reboot = &infrav1.RebootRequest{} }, true},
		"a status":       {func(h *host.Host) { h.Status.Server.Name = "x" }, true},
		"a label":        {func(h *host.Host) { h.Labels = map[string]string{"a": "b"} }, true},
		"a deletion":     {func(h *host.Host) { h.DeletionTimestamp = &metav1.Time{} }, true},
		"a pin and a claim": {func(h *host.Host) {
			h.Spec.Record.HostKey, h.Spec.ClaimRef = &infrav1.HostKey{}, &infrav1.ClaimReference{}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, now := before.DeepCopy(), before.DeepCopy()
			before.ResourceVersion, now.ResourceVersion, now.Generation = "1", "2", 2
			c.change(now)
			if got := (&statuses{}).news().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: now}); got != c.wakes {
				t.Errorf("wakes = %t, want %t", got, c.wakes)
			}
		})
	}
}

// A host that anybody can claim is woken by the claim, and needs no word of the choice
// before; any other host that a Machine means is.
func TestAChoiceDoesNotWakeAFreeHost(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	m := &infrav1.ScalewayAppleSiliconMachine{}
	if got := w.r.hostOf(w.ctx, m); len(got) > 0 {
		t.Errorf("a Machine without a hostRef wakes %v", got)
	}
	m.Spec.HostRef = &infrav1.HostReference{Name: w.host().Name, ClaimToken: "t-1"}
	if got := w.r.hostOf(w.ctx, m); len(got) > 0 {
		t.Errorf("the choice wakes %v", got)
	}
	m.Name = w.host().Status.Server.Name
	if got := w.r.hostOf(w.ctx, m); len(got) != 1 {
		t.Errorf("a Machine of the server's name wakes %v", got)
	}
	w.claim("m-1", "t-1")
	if got := w.r.hostOf(w.ctx, m); len(got) != 1 || got[0].NamespacedName != client.ObjectKeyFromObject(w.host()) {
		t.Errorf("the Machine of a claim wakes %v", got)
	}
}

// A Machine that begins to wait may miss its Secret: its host looks at once, and not at
// the next check.
func TestAMachineThatBeginsToWaitWakesItsHost(t *testing.T) {
	machine := func(reason string) *infrav1.ScalewayAppleSiliconMachine {
		m := &infrav1.ScalewayAppleSiliconMachine{}
		m.Spec.HostRef = &infrav1.HostReference{Name: "h", ClaimToken: "t"}
		conditions.Set(m, metav1.Condition{Type: infrav1.BootstrappedCondition, Status: metav1.ConditionFalse, Reason: reason})
		return m
	}
	for name, c := range map[string]struct {
		before, now string
		wakes       bool
	}{
		"misses something": {infrav1.BootstrappedCondition, infrav1.ReasonWaitingForHost, true},
		"waits still":      {infrav1.ReasonWaitingForHost, infrav1.ReasonWaitingForHost, false},
		"goes on":          {infrav1.ReasonWaitingForHost, infrav1.ReasonRunning, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := concernsHost().Update(event.UpdateEvent{ObjectOld: machine(c.before), ObjectNew: machine(c.now)})
			if got != c.wakes {
				t.Errorf("wakes = %t, want %t", got, c.wakes)
			}
		})
	}
}
