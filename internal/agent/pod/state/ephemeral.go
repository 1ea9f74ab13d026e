package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MessageEphemeral is why no ephemeral container runs.
const MessageEphemeral = "a Pod on this node is one macOS VM, and no container is added to it; " +
	"kubectl exec runs further commands in the VM"

// IsEphemeral reports that the container of that name was added to a Pod that was there.
func IsEphemeral(p *corev1.Pod, container string) bool {
	return slices.ContainsFunc(p.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == container })
}

// EphemeralStatuses are ends, so that who waits for the containers waits no longer.
func EphemeralStatuses(p *corev1.Pod, now metav1.Time) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for _, c := range p.Spec.EphemeralContainers {
		list = append(list, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{
				ExitCode: codeNotExecuted, Reason: ReasonUnsupported, Message: MessageEphemeral, StartedAt: now, FinishedAt: now,
			},
		}})
	}
	return list
}
