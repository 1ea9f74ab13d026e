package state

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The reasons are those that a kubelet gives to a Pod that has ended.
func TestReasonsOfAPodThatHasEnded(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	for code, want := range map[int32]map[corev1.PodConditionType]string{
		0: {corev1.PodInitialized: "PodCompleted", corev1.ContainersReady: "PodCompleted", corev1.PodReady: "PodCompleted"},
		1: {corev1.PodInitialized: "", corev1.ContainersReady: "PodFailed", corev1.PodReady: "PodFailed"},
	} {
		exit := &Exit{Code: code}
		status := Render(pod, Invariant{}, View{Final: exit, MainRan: true, Main: ContainerState{Exit: exit}}, nil, time.Now())
		for _, c := range status.Conditions {
			if reason, named := want[c.Type]; named && c.Reason != reason {
				t.Errorf("exit code %d: %s has the reason %q, want %q", code, c.Type, c.Reason, reason)
			}
		}
	}
}
