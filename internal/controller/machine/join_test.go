package machine

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/workload"
)

func TestADeletedNodeComesBackByAFreshPermit(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	w.heard()
	first := w.mac.desired[0].Join.Permit.ID
	w.delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}})
	w.settle("mac-1")
	if len(w.mac.desired) != 2 || w.mac.desired[1].Join == nil || w.mac.desired[1].Join.Permit.ID == first {
		t.Fatalf("converged %d times, want once more with another permit", len(w.mac.desired))
	}
	if got := w.reason("mac-1", infrav1.NodeReadyCondition); got != infrav1.ReasonNodeMissing {
		t.Errorf("NodeReady = %s", got)
	}
	w.settle("mac-1")
	if len(w.mac.desired) != 2 {
		t.Error("a token that may still be used is replaced")
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.settle("mac-1")
	if len(w.mac.desired) != 3 || len(w.tokens()) != 1 {
		t.Errorf("converged %d times with %d tokens; want a third permit, and one token", len(w.mac.desired), len(w.tokens()))
	}
	w.join("mac-1")
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Status.Phase != machine.PhaseRunning || len(w.tokens()) != 0 {
		t.Errorf("phase = %s, tokens = %q", m.Status.Phase, w.tokens())
	}
}

// silence makes the Node of mac-1 not Ready from now on.
func (w *world) silence() {
	w.t.Helper()
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: "mac-1"}, node)
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.clock.Now())
	w.updateStatus(node)
}

// A Mac that was off for a day, or whose approver was, comes back with a
// certificate that has expired: only a fresh token lets it in again.
func TestASilentNodeIsGivenAFreshToken(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	w.silence()
	result := w.settle("mac-1")
	if len(w.mac.desired) != 1 || result.RequeueAfter != machine.SilentLimit {
		t.Fatalf("converged %d times, comes back after %s; want it to wait %s", len(w.mac.desired), result.RequeueAfter, machine.SilentLimit)
	}
	w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
	result = w.settle("mac-1")
	if len(w.mac.desired) != 2 || w.mac.desired[1].Join == nil || len(w.tokens()) != 1 {
		t.Fatalf("converged %d times, tokens = %q; want once more, with a token", len(w.mac.desired), w.tokens())
	}
	if result.RequeueAfter != workload.TokenLifetime {
		t.Errorf("comes back after %s, want when the token ends", result.RequeueAfter)
	}
	w.clock.SetTime(w.clock.Now().Add(workload.TokenLifetime - time.Second))
	w.settle("mac-1")
	if len(w.mac.desired) != 2 {
		t.Error("a token that may still be used is replaced")
	}
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	w.settle("mac-1")
	if len(w.mac.desired) != 3 || len(w.tokens()) != 1 {
		t.Errorf("converged %d times with %d tokens; want a third token, and one of them", len(w.mac.desired), len(w.tokens()))
	}
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: "mac-1"}, node)
	node.Status.Conditions[0].Status = corev1.ConditionTrue
	w.updateStatus(node)
	if result := w.settle("mac-1"); w.machine("mac-1").Status.Phase != machine.PhaseRunning || len(w.tokens()) != 0 || result.RequeueAfter != 0 {
		t.Errorf("phase = %s, tokens = %q, comes back after %s", w.machine("mac-1").Status.Phase, w.tokens(), result.RequeueAfter)
	}
}

// All Nodes are silent while the API server is not reached from the Macs, which the manager
// reaches still: a revision that is paused, halted or not tried yet gets to none of them by that.
func TestASilentNodeTakesAnotherRevisionInItsTurnOnly(t *testing.T) {
	w, wanted := profiled(t)
	w.silence()
	w.clock.SetTime(w.clock.Now().Add(24 * time.Hour))
	w.settle("mac-1")
	if len(w.mac.desired) != 1 || len(w.tokens()) != 0 {
		t.Fatalf("converged %d times, tokens = %q; want nothing before its turn", len(w.mac.desired), w.tokens())
	}
	if got := w.condition(infrav1.BootstrappedCondition); got.Status != metav1.ConditionTrue {
		t.Errorf("Bootstrapped = %s: it would get no turn", got.Reason)
	}
	w.turn("mac-1", wanted)
	w.settle("mac-1")
	if len(w.mac.desired) != 2 || w.mac.desired[1].Join == nil || w.machine("mac-1").Status.Update.ProvedAt == nil {
		t.Errorf("converged %d times, update = %+v; want once more, with a token", len(w.mac.desired), w.machine("mac-1").Status.Update)
	}
}

func TestASilentNodeIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"leaving": func(w *world) {
			c := cluster()
			w.get(client.ObjectKeyFromObject(c), c)
			c.Finalizers = []string{"test/hold"}
			w.update(c)
			w.delete(c)
		},
		"another Mac": func(w *world) {
			node := &corev1.Node{}
			w.get(client.ObjectKey{Name: "mac-1"}, node)
			node.Spec.ProviderID = host.ProviderID(zone, otherID)
			w.update(node)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
			w.running("mac-1")
			w.silence()
			change(w)
			w.clock.SetTime(w.clock.Now().Add(2 * machine.SilentLimit))
			w.settle("mac-1")
			if len(w.mac.desired) != 1 || len(w.tokens()) != 0 {
				t.Errorf("converged %d times, tokens = %q; want nothing", len(w.mac.desired), w.tokens())
			}
		})
	}
}

func TestNodeConditions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		reason string
	}{
		"ready":        {func(*corev1.Node) {}, infrav1.NodeReadyCondition},
		"not ready":    {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, infrav1.ReasonNodeNotReady},
		"silent":       {func(n *corev1.Node) { n.Status.Conditions = nil }, infrav1.ReasonNodeNotReady},
		"another Mac":  {func(n *corev1.Node) { n.Spec.ProviderID = host.ProviderID(zone, otherID) }, infrav1.ReasonProviderIDMismatch},
		"no identity":  {func(n *corev1.Node) { n.Spec.ProviderID = "" }, infrav1.ReasonNodeNotReady},
		"not there":    {nil, infrav1.ReasonNodeMissing},
		"never before": {nil, infrav1.ReasonWaitingForNode},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
			w.settle("mac-1")
			w.stage("mac-1", "secret-1")
			w.settle("mac-1")
			if name != "never before" {
				node := w.join("mac-1")
				w.settle("mac-1")
				if c.change == nil {
					w.delete(node)
				} else {
					c.change(node)
					w.update(node.DeepCopy())
					w.get(client.ObjectKeyFromObject(node), node)
					c.change(node)
					w.updateStatus(node)
				}
				w.settle("mac-1")
			}
			if got := w.reason("mac-1", infrav1.NodeReadyCondition); got != c.reason {
				t.Errorf("NodeReady = %s, want %s", got, c.reason)
			}
		})
	}
}

// While a push runs the API server is not asked for a Node that the cache lacks. That one is
// not absent for it: a push may end within the same visit, and a token follows from absence.
func TestANodeIsAbsentByTheWordOfTheAPIServerOnly(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}})...)
	stale := newWorld(t)
	p := &nodes{client: stale.client, reader: w.client}
	v := &visit{Snapshot: machine.Snapshot{Machine: w.machine("mac-1")}}
	for _, pushed := range []bool{true, false} {
		if err := p.findNode(t.Context(), v, pushed); err != nil {
			t.Fatal(err)
		}
		if found := v.Node != nil; found == pushed {
			t.Errorf("pushed %t: found %t", pushed, found)
		}
	}
}
