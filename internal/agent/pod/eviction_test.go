package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// A host that is short of something ends Pods whatever their policy, and has back what
// they held when it is told that they are gone.
func TestAPodIsEvicted(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.host.vms = t.TempDir()
	s := w.startAgent()
	w.awaitRunning("a")
	holders := s.Holders()
	if len(holders) != 1 || holders[0].Pod.Status.Phase != corev1.PodRunning || holders[0].CloneBytes < 8<<10 || holders[0].VMDir != w.host.vms+"/tk-uid-a-0" {
		t.Fatalf("holders %+v", holders)
	}
	gone := s.Evict("uid-a", "The node was low on resource: memory. ")
	if gone == nil {
		t.Fatal("it is not evicted")
	}
	p := w.awaitPhase(corev1.PodFailed)
	if p.Status.Reason != "Evicted" || p.Status.Message != "The node was low on resource: memory. " {
		t.Errorf("reason %q, message %q", p.Status.Reason, p.Status.Message)
	}
	c := conditionOf(p, corev1.DisruptionTarget)
	if c.Status != corev1.ConditionTrue || c.Reason != corev1.PodReasonTerminationByKubelet || c.Message != p.Status.Message {
		t.Errorf("condition %+v", c)
	}
	<-gone
	if names := w.host.names(); len(names) != 0 || w.events.count("a", "Evicted") != 1 {
		t.Errorf("left: %v, events %v", names, w.events.all())
	}
	if left := s.Holders(); len(left) != 0 || s.Evict("uid-a", "again") != nil || s.Evict("uid-b", "unknown") != nil {
		t.Errorf("it is evicted again, or holds something: %+v", left)
	}
}

// What was admitted goes on, and is restarted, on a host under pressure; what comes then
// has failed at once.
func TestAHostUnderPressureTakesNoPods(t *testing.T) {
	for name, c := range map[string]struct {
		pressures []corev1.NodeConditionType
		message   string
	}{
		"of its disk":   {[]corev1.NodeConditionType{corev1.NodeDiskPressure}, "The node had condition: [DiskPressure]. "},
		"of its memory": {[]corev1.NodeConditionType{corev1.NodeMemoryPressure}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
			w.pressures = func() []corev1.NodeConditionType { return c.pressures }
			w.startAgent()
			if c.message == "" {
				w.awaitRunning("a")
				return
			}
			p := w.awaitPhase(corev1.PodFailed)
			if p.Status.Reason != state.ReasonEvicted || p.Status.Message != c.message || w.host.count("create") != 0 {
				t.Errorf("%+v, %v", p.Status, w.host.history())
			}
		})
	}
}

func TestAPodThatWasAdmittedGoesOnUnderPressure(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitRunning("a")
	w.stopAgent()
	w.pressures = func() []corev1.NodeConditionType { return []corev1.NodeConditionType{corev1.NodeDiskPressure} }
	w.startAgent()
	w.host.vanish()
	w.awaitPod("a", "runs again", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	})
}
