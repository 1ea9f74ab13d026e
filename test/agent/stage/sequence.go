package stage

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Regressions are the rules that a Pod breaks which was before and is after; before
// is nil for its first version. Rules: the phase never goes back; restart counts
// never fall; a container is another one only with another restart; what has ended
// stays ended, and how it ended stays as it was; ready means running; what a Pod
// that has ended shows holds nothing that runs.
func Regressions(before, after *corev1.Pod) []string {
	broken := consistent(after)
	if before == nil {
		return broken
	}
	a, b := before.Status, after.Status
	if rank(b.Phase) < rank(a.Phase) {
		broken = append(broken, fmt.Sprintf("phase went from %s to %s", a.Phase, b.Phase))
	}
	if rank(a.Phase) == rankEnded && a.Phase != b.Phase {
		broken = append(broken, fmt.Sprintf("phase went from %s to %s, though the first is final", a.Phase, b.Phase))
	}
	if a.StartTime != nil && (b.StartTime == nil || !a.StartTime.Equal(b.StartTime)) {
		broken = append(broken, fmt.Sprintf("startTime went from %s to %s", a.StartTime, b.StartTime))
	}
	inits, containers := a.InitContainerStatuses, a.ContainerStatuses
	if refused(after) {
		inits, containers = begun(inits), begun(containers)
	}
	broken = append(broken, containerSteps(inits, b.InitContainerStatuses)...)
	return append(broken, containerSteps(containers, b.ContainerStatuses)...)
}

// refused reports a Pod that failed before any of its containers began. An agent that starts
// anew may admit other Pods first, and refuse one whose containers the agent before it showed
// as waiting. A kubelet shows no container of such a Pod.
func refused(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && p.Status.Reason != "" && len(p.Status.InitContainerStatuses)+len(p.Status.ContainerStatuses) == 0
}

// begun leaves out the containers that never ran.
func begun(list []corev1.ContainerStatus) []corev1.ContainerStatus {
	return slices.DeleteFunc(slices.Clone(list), func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && s.RestartCount == 0 && s.LastTerminationState.Terminated == nil
	})
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

// consistent looks at one version alone.
func consistent(p *corev1.Pod) []string {
	var broken []string
	ended := rank(p.Status.Phase) == rankEnded
	ready := true
	for _, s := range p.Status.ContainerStatuses {
		if s.Ready && s.State.Running == nil {
			broken = append(broken, fmt.Sprintf("container %s is ready and does not run", s.Name))
		}
		ready = ready && s.Ready
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if ended && s.State.Running != nil {
			broken = append(broken, fmt.Sprintf("container %s runs in a Pod that is %s", s.Name, p.Status.Phase))
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && (!ready || p.Status.Phase != corev1.PodRunning) {
			broken = append(broken, fmt.Sprintf("the Pod is ready: phase %s, containers ready: %t", p.Status.Phase, ready))
		}
	}
	return broken
}

func containerSteps(before, after []corev1.ContainerStatus) []string {
	var broken []string
	for _, a := range before {
		found := false
		for _, b := range after {
			if a.Name == b.Name {
				found = true
				broken = append(broken, containerStep(a, b)...)
			}
		}
		if !found {
			broken = append(broken, fmt.Sprintf("container %s is not shown any more", a.Name))
		}
	}
	return broken
}

func containerStep(a, b corev1.ContainerStatus) []string {
	var broken []string
	say := func(format string, args ...any) {
		broken = append(broken, fmt.Sprintf("container %s: ", a.Name)+fmt.Sprintf(format, args...))
	}
	again := b.RestartCount > a.RestartCount
	switch {
	case b.RestartCount < a.RestartCount:
		say("restartCount fell from %d to %d", a.RestartCount, b.RestartCount)
	case a.State.Running != nil && b.State.Waiting != nil && b.LastTerminationState.Terminated == nil:
		say("it ran, and waits as if it never had")
	case a.State.Running != nil && b.State.Running != nil && a.ContainerID != b.ContainerID && !again:
		say("%s became %s without a restart", a.ContainerID, b.ContainerID)
	case a.State.Terminated != nil && b.State.Running != nil && !again:
		say("it had ended, and runs again without a restart")
	}
	if x, y := a.State.Terminated, b.State.Terminated; x != nil && y != nil && x.ContainerID == y.ContainerID {
		if x.ExitCode != y.ExitCode || x.Reason != y.Reason {
			say("its end was %d %s, and became %d %s", x.ExitCode, x.Reason, y.ExitCode, y.Reason)
		}
	}
	return broken
}
