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
		return none("waiting to start: " + waitingFor(state.Waiting.Reason))
	default:
		return none("waiting to start - no logs yet")
	}
	return nil
}

func waitingFor(reason string) string {
	switch reason {
	case "ErrImagePull":
		return "image can't be pulled"
	case "ImagePullBackOff":
		return "trying and failing to pull image"
	}
	return reason
}

func containerStatus(pod *corev1.Pod, container string) (corev1.ContainerStatus, bool) {
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses)
	i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return corev1.ContainerStatus{}, false
	}
	return all[i], true
}
