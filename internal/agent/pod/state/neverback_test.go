package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStatusNeverGoesBack(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}
	killed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
	status := func(phase corev1.PodPhase, restarts int32, s corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: "vm", RestartCount: restarts, State: s}}}
	}
	sidecar := func(restarts int32) corev1.PodStatus {
		s := status("Running", 0, running)
		s.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", RestartCount: restarts, State: running}}
		return s
	}
	first, second := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	started := func(s corev1.PodStatus, at metav1.Time) corev1.PodStatus {
		s.StartTime = &at
		return s
	}
	for name, c := range map[string]struct{ shown, next, want corev1.PodStatus }{
		"nothing was shown": {corev1.PodStatus{}, status("Running", 1, running), status("Running", 1, running)},
		"forward":           {status("Pending", 0, corev1.ContainerState{}), status("Running", 1, running), status("Running", 1, running)},
		"the phase":         {status("Running", 2, running), status("Pending", 2, corev1.ContainerState{}), status("Running", 2, corev1.ContainerState{})},
		"restarts":          {status("Running", 2, running), status("Running", 0, running), status("Running", 2, running)},
		"a sidecar's":       {sidecar(2), sidecar(0), sidecar(2)},
		"an end stays":      {status("Failed", 2, ended), status("Running", 3, running), status("Failed", 2, ended)},
		"it stays the same": {status("Failed", 2, ended), status("Succeeded", 2, killed), status("Failed", 2, ended)},
		"also a success":    {status("Succeeded", 0, ended), status("Failed", 0, killed), status("Succeeded", 0, ended)},
		"a failure may not be followed by a start": {
			status("Failed", 0, corev1.ContainerState{}), status("Running", 0, running), status("Failed", 0, corev1.ContainerState{}),
		},
		"an end follows anything": {status("Running", 0, running), status("Failed", 0, killed), status("Failed", 0, killed)},
		"containers may follow": {
			status("Failed", 2, running), status("Failed", 2, killed), status("Failed", 2, killed),
		},
		"the start": {
			started(status("Running", 0, running), first), started(status("Running", 0, running), second), started(status("Running", 0, running), first),
		},
	} {
		if d := cmp.Diff(c.want, NeverBack(c.shown, c.next)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
