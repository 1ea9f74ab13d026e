package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// losesASlot is a Mac on which a long guest runs and the other slot is lost.
func losesASlot(t *testing.T, owner string) *world {
	t.Helper()
	w := newWorld(t, owned(podtest.OnMac("long", corev1.RestartPolicyNever), "ReplicaSet"))
	w.startAgent()
	w.awaitRunning("long")
	w.host.runEnds = []vm.RunEnd{{Code: 1, Tail: "exceeds the system limit"}}
	w.create(owned(podtest.OnMac("a", corev1.RestartPolicyAlways), owner))
	return w
}

// owned has a controller of the kind, if any.
func owned(p *corev1.Pod, kind string) *corev1.Pod {
	if kind != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: "o", UID: "u", Controller: &yes}}
	}
	return p
}

func (w *world) longerThanPatience() {
	w.t.Helper()
	begin := w.clock.Now()
	timer := w.clock.NewTimer(3 * lostSlotTimeout)
	defer timer.Stop()
	w.await("time passes", func() bool { return w.clock.Since(begin) >= 2*lostSlotTimeout })
}

func TestAPodThatALostSlotHoldsUpIsGivenBack(t *testing.T) {
	for _, owner := range []string{"ReplicaSet", "StatefulSet", "EphemeralRunner"} {
		w := losesASlot(t, owner)
		p := w.awaitPhase(corev1.PodFailed)
		if p.Status.Reason != state.ReasonLimited || !strings.Contains(p.Status.Message, "has lost 1 of its 2 places") {
			t.Errorf("%s: reason %q, message %q", owner, p.Status.Reason, p.Status.Message)
		}
		if state.ConditionOf(p.Status.Conditions, corev1.DisruptionTarget) != corev1.ConditionTrue {
			t.Errorf("%s: no condition DisruptionTarget: %+v", owner, p.Status.Conditions)
		}
		if n := w.host.count("run"); n != 2 {
			t.Errorf("%s: %d starts, want that of the long one and the refused one", owner, n)
		}
		w.awaitRunning("long")
	}
}

// What nobody makes anew elsewhere is better off waiting for the reboot.
func TestOtherPodsWaitForALostSlot(t *testing.T) {
	for _, owner := range []string{"", "Job", "DaemonSet"} {
		w := losesASlot(t, owner)
		w.awaitWaiting(state.ReasonLimited)
		w.longerThanPatience()
		if p := w.pod("a"); p.Status.Phase != corev1.PodPending {
			t.Errorf("%q: phase %s", owner, p.Status.Phase)
		}
	}
}

// A slot that another guest holds is given back when that one ends, however late. Should
// it be lost then, the Pod that waits for it goes elsewhere.
func TestAPodThatWaitsForASlotIsNotGivenBack(t *testing.T) {
	w := newWorld(t, podtest.OnMac("b", corev1.RestartPolicyAlways), podtest.OnMac("c", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("b")
	w.awaitRunning("c")
	w.create(owned(podtest.OnMac("a", corev1.RestartPolicyAlways), "ReplicaSet"))
	w.await("its image", func() bool { return w.events.count("a", "Pulled") == 1 })
	w.longerThanPatience()
	if p := w.pod("a"); p.Status.Phase != corev1.PodPending {
		t.Errorf("phase %s", p.Status.Phase)
	}
	w.host.mu.Lock()
	w.host.runEnds = []vm.RunEnd{{Code: 1, Tail: "exceeds the system limit"}}
	w.host.mu.Unlock()
	w.host.end("tk-uid-b-0", vm.RunEnd{Code: 1, Tail: "due to error"}, "crash")
	w.awaitPod("a", "is given back", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
}
