package pod

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/slot"
)

// refused is a Pod with a field that no guest can honour.
func refused(policy corev1.RestartPolicy, owner string) *corev1.Pod {
	p := podtest.OnMac("a", policy)
	p.Spec.HostNetwork = true
	p.Spec.Containers[0].LivenessProbe = &corev1.Probe{}
	if owner != "" {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "o", UID: "u", Controller: &yes}}
	}
	return p
}

// writes counts the patches of Pods' statuses.
func (w *world) writes() int {
	n := 0
	for _, a := range w.client.Actions() {
		if a.GetVerb() == "patch" && a.GetResource().Resource == "pods" {
			n++
		}
	}
	return n
}

// passes waits until a long time has passed for everybody.
func (w *world) passes() {
	w.t.Helper()
	begin := w.clock.Now()
	timer := w.clock.NewTimer(10 * refusedPause)
	defer timer.Stop()
	w.await("time passes", func() bool { return w.clock.Since(begin) >= 10*refusedPause })
}

func TestARefusedPodThatIsMadeAnewWaits(t *testing.T) {
	for _, owner := range []string{"", "ReplicaSet", "DaemonSet", "StatefulSet"} {
		t.Run(owner, func(t *testing.T) {
			w := newWorld(t, refused(corev1.RestartPolicyAlways, owner))
			w.startAgent()
			p := w.awaitWaiting(state.ReasonConfig)
			for _, field := range []string{"spec.hostNetwork", "spec.containers[0].livenessProbe"} {
				if m := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(m, field) {
					t.Errorf("%q does not name %s", m, field)
				}
			}
			w.passes()
			if p = w.pod("a"); p.Status.Phase != corev1.PodPending {
				t.Errorf("phase %s", p.Status.Phase)
			}
			if got := w.events.reasons("a"); !slices.Equal(got, []string{state.ReasonUnsupported}) {
				t.Errorf("events %v", got)
			}
			if n := w.writes(); n != 1 {
				t.Errorf("%d writes of its status", n)
			}
			if h := w.host.history(); len(h) > 0 {
				t.Errorf("the host did %v", h)
			}
		})
	}
}

func TestARefusedPodWaitsOnWithoutWritesAfterARestart(t *testing.T) {
	w := newWorld(t, refused(corev1.RestartPolicyAlways, "ReplicaSet"))
	w.startAgent()
	w.awaitWaiting(state.ReasonConfig)
	w.stopAgent()
	before := w.writes()
	w.startAgent()
	w.passes()
	if n := w.writes() - before; n != 0 {
		t.Errorf("%d writes after the restart", n)
	}
	if n := w.events.count("a", state.ReasonUnsupported); n != 1 {
		t.Errorf("%d events", n)
	}
	w.delete("a")
	w.awaitGone("a")
}

func TestARefusedPodThatWaitsIsDeletedAtOnce(t *testing.T) {
	w := newWorld(t, refused(corev1.RestartPolicyAlways, "ReplicaSet"))
	w.startAgent()
	w.awaitWaiting(state.ReasonConfig)
	w.frozen.Store(true)
	w.delete("a")
	w.awaitGone("a")
}

func TestARefusedPodGoesOnOnceItCan(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "registry.test/macos/other:v1", Command: []string{"true"}}}
	w := newWorld(t, p)
	w.startAgent()
	w.awaitPod("a", "waits", func(p *corev1.Pod) bool {
		s := p.Status.InitContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == state.ReasonConfig
	})
	w.edit("a", func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = p.Spec.Containers[0].Image })
	w.awaitRunning("a")
}

func TestARefusedPodThatWaitsHasItsDeadline(t *testing.T) {
	p := refused(corev1.RestartPolicyAlways, "ReplicaSet")
	seconds := int64(60)
	p.Spec.ActiveDeadlineSeconds = &seconds
	w := newWorld(t, p)
	w.startAgent()
	p = w.awaitPhase(corev1.PodFailed)
	if p.Status.Reason != reasonDeadline || state.ConditionOf(p.Status.Conditions, corev1.DisruptionTarget) != corev1.ConditionUnknown {
		t.Errorf("reason %s, conditions %+v", p.Status.Reason, p.Status.Conditions)
	}
}

func TestARefusedPodOfAnotherPolicyFails(t *testing.T) {
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
		for _, owner := range []string{"", "Job", "EphemeralRunner"} {
			w := newWorld(t, refused(policy, owner))
			w.startAgent()
			if p := w.awaitPhase(corev1.PodFailed); p.Status.Reason != state.ReasonUnsupported {
				t.Errorf("%s of %s: reason %s", policy, owner, p.Status.Reason)
			}
		}
	}
}

// Some controllers make another Pod for each that failed, at once, whatever its policy.
func TestARefusedPodThatIsMadeAnewAfterItFailedFailsSlowly(t *testing.T) {
	for owner, slow := range map[string]bool{"EphemeralRunner": true, "Job": false, "": false} {
		w := newWorld(t, refused(corev1.RestartPolicyNever, owner))
		w.frozen.Store(true)
		w.startAgent()
		if slow {
			w.awaitWaiting(state.ReasonUnsupported)
			w.frozen.Store(false)
		}
		w.awaitPhase(corev1.PodFailed)
	}
}

// Places of the Node are the scheduler's to count; slots of the licence are not taken.
func TestARefusedPodThatWaitsHoldsNoSlot(t *testing.T) {
	w := newWorld(t, refused(corev1.RestartPolicyAlways, "ReplicaSet"))
	w.startAgent()
	w.awaitWaiting(state.ReasonConfig)
	names := []string{"b", "c"}
	if len(names) != slot.Licence {
		t.Fatalf("this test counts with another licence than %d", slot.Licence)
	}
	for _, name := range names {
		w.create(podtest.OnMac(name, corev1.RestartPolicyNever))
		w.awaitRunning(name)
	}
}
