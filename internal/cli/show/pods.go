package show

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

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

// WhyPending is what keeps a Pod from running, in a word and a sentence.
func WhyPending(p *corev1.Pod) (reason, message string) {
	for _, status := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := status.State.Waiting; w != nil {
			return w.Reason, firstSentence(w.Message)
		}
	}
	if p.Status.Reason != "" {
		return p.Status.Reason, firstSentence(p.Status.Message)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason, firstSentence(c.Message)
		}
	}
	return string(p.Status.Phase), ""
}

// firstSentence is what a scheduler says before it repeats itself.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(strings.Join(strings.Fields(text), " "), ". ")
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
