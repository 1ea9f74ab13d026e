package stage

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podIn is a Pod with one container.
func podIn(phase corev1.PodPhase, restarts int32, id string, state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{
		Phase: phase,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "vm", RestartCount: restarts, ContainerID: id, State: state, Ready: state.Running != nil,
		}},
	}}
}

func TestRegressions(t *testing.T) {
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, ContainerID: "a"}}
	}
	after := func(p *corev1.Pod, end corev1.ContainerState) *corev1.Pod {
		p.Status.ContainerStatuses[0].LastTerminationState = end
		return p
	}
	with := func(p *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod { change(p); return p }
	early, late := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	refusedPod := func(reason string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason}}
	}
	for _, c := range []struct {
		name          string
		before, after *corev1.Pod
		broken        string
	}{
		{"begins", podIn("Pending", 0, "", waits), podIn("Running", 0, "a", runs), ""},
		{"ends", podIn("Running", 0, "a", runs), podIn("Succeeded", 0, "a", ended(0)), ""},
		{"restarts", podIn("Running", 0, "a", runs), after(podIn("Running", 1, "a", waits), ended(1)), ""},
		{"runs again", podIn("Running", 0, "a", runs), after(podIn("Running", 1, "b", runs), ended(1)), ""},
		{"phase goes back", podIn("Running", 0, "", waits), podIn("Pending", 0, "", waits), "phase went from Running to Pending"},
		{"end is taken back", podIn("Failed", 0, "a", ended(1)), podIn("Succeeded", 0, "a", ended(0)), "though the first is final"},
		{"count falls", podIn("Running", 2, "c", runs), podIn("Running", 1, "b", runs), "restartCount fell from 2 to 1"},
		{"forgets that it ran", podIn("Running", 0, "a", runs), podIn("Running", 0, "", waits), "waits as if it never had"},
		{"another one without a restart", podIn("Running", 0, "a", runs), podIn("Running", 0, "b", runs), "without a restart"},
		{"comes back to life", podIn("Running", 0, "a", ended(1)), podIn("Running", 0, "a", runs), "runs again without a restart"},
		{"exit code changes", podIn("Running", 0, "a", ended(1)), podIn("Running", 0, "a", ended(0)), "its end was 1"},
		{"is ready and waits", nil, with(podIn("Pending", 0, "", waits), func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = true }), "ready and does not run"},
		{"runs after the end", nil, podIn("Failed", 0, "a", runs), "runs in a Pod that is Failed"},
		{"sidecar runs after the end", nil, with(podIn("Succeeded", 0, "a", ended(0)), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar", State: runs}}
		}), "sidecar runs in a Pod that is Succeeded"},
		{"ready Pod that waits", nil, with(podIn("Pending", 0, "", waits), func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}), "the Pod is ready"},
		{"is refused before it began", podIn("Pending", 0, "", waits), refusedPod("OutOfcpu"), ""},
		{"is refused after it ran", podIn("Running", 0, "a", runs), refusedPod("OutOfcpu"), "not shown any more"},
		{"is refused between two runs", after(podIn("Pending", 1, "a", waits), ended(1)), refusedPod("OutOfcpu"), "not shown any more"},
		{"fails without a reason, and a container vanishes", podIn("Pending", 0, "", waits), refusedPod(""), "not shown any more"},
		{"container vanishes before it ran", podIn("Pending", 0, "", waits), &corev1.Pod{Status: corev1.PodStatus{Phase: "Pending"}}, "not shown any more"},
		{"container vanishes", podIn("Running", 0, "a", runs), &corev1.Pod{Status: corev1.PodStatus{Phase: "Running"}}, "not shown any more"},
		{
			"starts at another time",
			&corev1.Pod{Status: corev1.PodStatus{StartTime: &early}}, &corev1.Pod{Status: corev1.PodStatus{StartTime: &late}}, "startTime went",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(Regressions(c.before, c.after), "; ")
			if c.broken == "" && got != "" || !strings.Contains(got, c.broken) {
				t.Errorf("broken: %q, want %q", got, c.broken)
			}
		})
	}
}
