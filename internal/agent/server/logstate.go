package server

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// logError says, in a kubelet's words, why a container has no log now; nil: it has
// one.
func logError(pod *corev1.Pod, container string, previous bool) error {
	none := func(why string) error { return fmt.Errorf("container %q in pod %q is %s", container, pod.Name, why) }
	status, found := containerStatus(pod, container)
	if why := refusal(pod, status); why != "" && !previous {
		return none("not available: " + why)
	}
	if !found {
		return none("not available")
	}
	last, state := status.LastTerminationState.Terminated, status.State
	lastRan := last != nil && last.ContainerID != ""
	switch {
	case previous:
		if !lastRan {
			return fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
		}
	case state.Running != nil:
	case state.Terminated != nil:
		switch ended := state.Terminated; {
		case ended.ContainerID != "" || lastRan:
		case ended.Message != "":
			// As of an ephemeral container: kubectl debug shows this in the place of its log.
			return none("terminated: " + ended.Message)
		default:
			return none("terminated")
		}
	case last != nil:
		if !lastRan {
			return none("terminated")
		}
	case state.Waiting != nil:
		return none("waiting to start: " + waitingFor(*state.Waiting))
	default:
		return none("waiting to start - no logs yet")
	}
	return nil
}

// refusal is why a Pod failed as a whole in which the container never ran: what its status says.
func refusal(pod *corev1.Pod, c corev1.ContainerStatus) string {
	ran := c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	if pod.Status.Phase != corev1.PodFailed || ran || pod.Status.Reason == "" {
		return ""
	}
	return words(pod.Status.Reason, pod.Status.Message)
}

// words are a reason and its message, as kubectl describe shows both.
func words(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}

// waitingFor is a kubelet's word; of a Pod that this node refuses for now it is why.
func waitingFor(waiting corev1.ContainerStateWaiting) string {
	switch waiting.Reason {
	case "ErrImagePull":
		return "image can't be pulled"
	case "ImagePullBackOff":
		return "trying and failing to pull image"
	case "CreateContainerConfigError", "UnsupportedField":
		return words(waiting.Reason, waiting.Message)
	}
	return waiting.Reason
}

func containerStatus(pod *corev1.Pod, container string) (corev1.ContainerStatus, bool) {
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses)
	i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return corev1.ContainerStatus{}, false
	}
	return all[i], true
}
