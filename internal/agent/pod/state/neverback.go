package state

import corev1 "k8s.io/api/core/v1"

// NeverBack is next, where it does not fall behind what was shown before: by this
// agent, or by one before it, of which only the API server knows.
func NeverBack(shown, next corev1.PodStatus) corev1.PodStatus {
	if shown.StartTime != nil {
		next.StartTime = shown.StartTime
	}
	next.EphemeralContainerStatuses = keepExits(shown.EphemeralContainerStatuses, next.EphemeralContainerStatuses)
	if rank(shown.Phase) == rankEnded {
		return keepPhase(shown, next)
	}
	if rank(next.Phase) < rank(shown.Phase) {
		next.Phase = shown.Phase
	}
	next.ContainerStatuses = keepRestartCounts(shown.ContainerStatuses, next.ContainerStatuses)
	next.InitContainerStatuses = keepRestartCounts(shown.InitContainerStatuses, next.InitContainerStatuses)
	return next
}

const rankEnded = 2

func rank(p corev1.PodPhase) int {
	switch p {
	case corev1.PodRunning:
		return 1
	case corev1.PodSucceeded, corev1.PodFailed:
		return rankEnded
	}
	return 0
}

// keepPhase: an end is never taken back or changed to another. Only containers that
// were not shown to have ended may still do so.
func keepPhase(shown, next corev1.PodStatus) corev1.PodStatus {
	next.Phase, next.Reason, next.Message = shown.Phase, shown.Reason, shown.Message
	next.ContainerStatuses = keepExits(shown.ContainerStatuses, next.ContainerStatuses)
	next.InitContainerStatuses = keepExits(shown.InitContainerStatuses, next.InitContainerStatuses)
	return next
}

func keepExits(shown, next []corev1.ContainerStatus) []corev1.ContainerStatus {
	if len(next) < len(shown) {
		return shown
	}
	kept := keepRestartCounts(shown, next)
	for i, s := range shown {
		if kept[i].Name == s.Name && (s.State.Terminated != nil || kept[i].State.Terminated == nil) {
			kept[i] = s
		}
	}
	return kept
}

// keepRestartCounts keeps restarts counted, also where a checkpoint was lost.
func keepRestartCounts(shown, next []corev1.ContainerStatus) []corev1.ContainerStatus {
	counted := append([]corev1.ContainerStatus(nil), next...)
	for i := range counted {
		if i < len(shown) && shown[i].Name == counted[i].Name {
			counted[i].RestartCount = max(counted[i].RestartCount, shown[i].RestartCount)
		}
	}
	return counted
}
