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
// writes wakes the host, and one that loses its status is looked at.
func TestAStatusOfOursWakesNobody(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	wakes := func() bool {
		return w.r.statuses.foreign().Update(event.UpdateEvent{ObjectOld: &host.Host{}, ObjectNew: w.host()})
	}
	if wakes() {
		t.Error("its own status wakes the host")
	}
	h := w.host()
	h.Status = infrav1.ScalewayAppleSiliconHostStatus{}
	w.must(w.client.Status().Update(w.ctx, h))
	if !wakes() {
		t.Error("a status that was wiped does not wake the host")
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
