package oracle

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// tell is what the versions of a Pod say, without times and names, each thing once.
func tell(versions []stage.Seen) []string {
	var told []string
	for _, v := range versions {
		line := statusOf(v.Pod)
		if v.Gone {
			line = "gone"
		}
		if len(told) == 0 || told[len(told)-1] != line {
			told = append(told, line)
		}
	}
	return told
}

func statusOf(p *corev1.Pod) string {
	words := []string{string(p.Status.Phase)}
	if p.Status.Reason != "" {
		words = append(words, fmt.Sprintf("%s %q", p.Status.Reason, p.Status.Message))
	}
	conditions := slices.Clone(p.Status.Conditions)
	slices.SortFunc(conditions, func(a, b corev1.PodCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	for _, c := range conditions {
		words = append(words, strings.TrimRight(fmt.Sprintf("%s=%.1s %s %s", c.Type, c.Status, c.Reason, c.Message), " "))
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		words = append(words, containerOf(s))
	}
	return strings.Join(words, " | ")
}

func containerOf(s corev1.ContainerStatus) string {
	text := fmt.Sprintf("%s#%d: %s", s.Name, s.RestartCount, stateOf(s.State))
	if s.Ready {
		text += " ready"
	}
	if s.Started != nil && *s.Started {
		text += " started"
	}
	if s.LastTerminationState.Terminated != nil {
		text += ", before: " + stateOf(s.LastTerminationState)
	}
	return text
}

func stateOf(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("%s %d", s.Terminated.Reason, s.Terminated.ExitCode)
	case s.Waiting != nil:
		return "waits " + s.Waiting.Reason
	}
	return "nothing"
}

// tellEvents is what the events about a Pod say, in the order in which each was told first.
func tellEvents(pod *corev1.Pod, events []corev1.Event) []string {
	// The recorder ends their names with the time of the first, in nanoseconds.
	when := func(e corev1.Event) string { return e.Name[strings.LastIndex(e.Name, ".")+1:] }
	slices.SortFunc(events, func(a, b corev1.Event) int { return strings.Compare(when(a), when(b)) })
	var told []string
	for _, e := range events {
		line := strings.TrimSpace(fmt.Sprintf("%s %s %s: %s", e.Type, e.Reason, e.InvolvedObject.FieldPath, plain(pod, e.Message)))
		if !slices.Contains(told, line) {
			told = append(told, line)
		}
	}
	return told
}

// plain is a message without what is different each time.
func plain(pod *corev1.Pod, message string) string {
	message = strings.NewReplacer(pod.Name, "POD", string(pod.UID), "UID").Replace(message)
	return regexp.MustCompile(`[0-9.]+m?s\b`).ReplaceAllString(message, "TIME")
}
