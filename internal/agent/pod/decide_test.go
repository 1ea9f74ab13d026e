package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

// A status never falls behind what an earlier agent wrote, whatever became of its
// checkpoint.
func TestStatusNeverFallsBehindTheAPIServer(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "vm", RestartCount: 4, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	w := newWorld(t, p)
	w.phases.seen = map[string][]corev1.PodPhase{"uid-a": {corev1.PodRunning}}
	w.startAgent()
	got := w.awaitPod("a", "was restarted", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount == 5 && p.Status.ContainerStatuses[0].Ready
	})
	if e := got.Status.ContainerStatuses[0].LastTerminationState.Terminated; e == nil || e.Reason != "ContainerStatusUnknown" {
		t.Errorf("last state %+v", e)
	}
}
