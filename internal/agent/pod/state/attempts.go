package state

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AttemptOf is the attempt of the Pod whose VM a container ID names; false for an ID
// that is empty, or of a VM that this agent did not name.
func AttemptOf(uid types.UID, containerID string) (int, bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(containerID, containerIDPrefix), "/")
	owner, attempt, ours := ParseVMName(name)
	return attempt, ours && owner == uid
}

// LogIDs are the container IDs whose logs a status offers, as a kubelet chooses them:
// the container that runs or has ended, else the one that ended before; and for
// --previous the one that lastState names. Empty: there is none.
func LogIDs(s corev1.ContainerStatus) (current, previous string) {
	if t := s.LastTerminationState.Terminated; t != nil {
		previous = t.ContainerID
	}
	switch {
	case s.State.Running != nil:
		return s.ContainerID, previous
	case s.State.Terminated != nil && s.State.Terminated.ContainerID != "":
		return s.State.Terminated.ContainerID, previous
	}
	return previous, previous
}

// Kept are the attempts whose logs may still be asked for: this one, the one before it,
// and those that the ends of containers name.
func (r Record) Kept() []int {
	kept := []int{r.Attempt, r.Attempt - 1}
	for _, l := range r.containers() {
		for _, e := range []*Exit{l.Exit, l.LastExit} {
			if e == nil {
				continue
			}
			if attempt, ours := AttemptOf(r.UID, e.VM); ours {
				kept = append(kept, attempt)
			}
		}
	}
	return kept
}

// PlaceOf is the place of the container of that name; false: the Pod has none.
func PlaceOf(p *corev1.Pod, container string) (Place, bool) {
	for _, at := range places(p) {
		if at.In(p).Name == container {
			return at, true
		}
	}
	return Place{}, false
}

// CommandID is the command of the container at a place that a container ID is about.
func (a Place) CommandID(containerID string) string { return a.Command(runOf(containerID)) }

// Overlay is the status that the API shows, with what the agent last rendered over it.
func Overlay(shown, rendered corev1.PodStatus) corev1.PodStatus {
	s := *shown.DeepCopy()
	s.ObservedGeneration, s.Phase, s.Reason, s.Message = rendered.ObservedGeneration, rendered.Phase, rendered.Reason, rendered.Message
	s.StartTime, s.HostIP, s.HostIPs = rendered.StartTime, rendered.HostIP, rendered.HostIPs
	s.ContainerStatuses, s.InitContainerStatuses = rendered.ContainerStatuses, rendered.InitContainerStatuses
	s.EphemeralContainerStatuses = rendered.EphemeralContainerStatuses
	for _, c := range rendered.Conditions {
		s.Conditions = withCondition(s.Conditions, c)
	}
	return *s.DeepCopy()
}

func withCondition(list []corev1.PodCondition, c corev1.PodCondition) []corev1.PodCondition {
	for i := range list {
		if list[i].Type == c.Type {
			list[i] = c
			return list
		}
	}
	return append(list, c)
}
