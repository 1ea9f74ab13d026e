package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// macTaint is on Macs' Nodes unless their profile says otherwise.
const macTaint = "tuist.dev/macos"

// WantsMac says whether a Pod that runs nowhere yet is meant for a Mac.
func WantsMac(p *corev1.Pod) bool {
	if p.Spec.NodeSelector[corev1.LabelOSStable] == "darwin" {
		return true
	}
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == macTaint })
}

// Problem is what keeps a Pod from running, or what it has failed of.
type Problem struct {
	// Reason is empty: it runs, or has run, and all is well.
	Reason, Message string
	// Since is when its container ended last, where one did.
	Since time.Time
	// Container has ended before, as Ended says, and is to be started again; nil: none is.
	Container string
	Ended     *corev1.ContainerStateTerminated
}

// ProblemOf looks at the Pod alone, and not at its Mac.
func ProblemOf(p *corev1.Pod) Problem {
	statuses := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return Problem{}
	case corev1.PodFailed:
		return failureOf(p, statuses)
	}
	if c := waiting(statuses); c != nil {
		problem := Problem{Reason: c.State.Waiting.Reason, Message: screen.OneLine(c.State.Waiting.Message)}
		if ended := c.LastTerminationState.Terminated; ended != nil {
			problem.Container, problem.Ended, problem.Since = c.Name, ended, ended.FinishedAt.Time
		}
		return problem
	}
	if p.Status.Reason != "" {
		return Problem{Reason: p.Status.Reason, Message: screen.OneLine(p.Status.Message)}
	}
	if p.Status.Phase != corev1.PodRunning {
		return unscheduled(p)
	}
	return unready(p)
}

// waiting is the container that waits for something of its own, else the first that waits for
// its turn.
func waiting(statuses []corev1.ContainerStatus) *corev1.ContainerStatus {
	var first *corev1.ContainerStatus
	for i := range statuses {
		w := statuses[i].State.Waiting
		switch {
		case w == nil:
		case !slices.Contains([]string{"ContainerCreating", "PodInitializing"}, w.Reason):
			return &statuses[i]
		case first == nil:
			first = &statuses[i]
		}
	}
	return first
}

// failureOf is the Pod's own reason, else that of the first of its containers that failed.
func failureOf(p *corev1.Pod, statuses []corev1.ContainerStatus) Problem {
	problem := Problem{Reason: cmp.Or(p.Status.Reason, string(p.Status.Phase)), Message: screen.OneLine(p.Status.Message)}
	for i := range statuses {
		ended := statuses[i].State.Terminated
		if ended == nil || ended.ExitCode == 0 {
			continue
		}
		problem.Since = ended.FinishedAt.Time
		if p.Status.Reason == "" {
			problem.Reason, problem.Message = EndOf(statuses[i].Name, ended)
		}
		return problem
	}
	return problem
}

// EndOf is how a container ended, in a word and a sentence.
func EndOf(container string, ended *corev1.ContainerStateTerminated) (reason, message string) {
	message = fmt.Sprintf("container %s ended with exit code %d: %s", container, ended.ExitCode, screen.OneLine(ended.Message))
	return cmp.Or(ended.Reason, "Error"), strings.TrimSuffix(message, ": ")
}

// unscheduled is what a Pod waits for of which no agent tells.
func unscheduled(p *corev1.Pod) Problem {
	if c := falseOf(p, corev1.PodScheduled); c != nil {
		return Problem{Reason: c.Reason, Message: firstSentence(c.Message)}
	}
	return Problem{Reason: string(p.Status.Phase)}
}

// unready is why a Pod that runs is not Ready.
func unready(p *corev1.Pod) Problem {
	if c := falseOf(p, corev1.PodReady); c != nil {
		return Problem{Reason: cmp.Or(c.Reason, "NotReady"), Message: screen.OneLine(c.Message), Since: c.LastTransitionTime.Time}
	}
	return Problem{}
}

func falseOf(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	at := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionFalse })
	if at < 0 {
		return nil
	}
	return &p.Status.Conditions[at]
}

// firstSentence is what a scheduler says before it repeats itself.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(screen.OneLine(text), ". ")
	return text
}

// Guests are the Pods on each Node that have not ended.
func Guests(s *snapshot.Snapshot) map[string][]string {
	guests := map[string][]string{}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			guests[p.Spec.NodeName] = append(guests[p.Spec.NodeName], p.Namespace+"/"+p.Name)
		}
	}
	for node := range guests {
		slices.Sort(guests[node])
	}
	return guests
}
