package main

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// demoTrouble is what keeps the first of the demo's Pods from running that tells it.
func demoTrouble(now *snapshot.Snapshot) string {
	for i := range now.Pods {
		p := &now.Pods[i]
		if p.Labels["app"] != demoApp || podReady(*p) {
			continue
		}
		if trouble := podTrouble(p); trouble != "" {
			return trouble
		}
	}
	return ""
}

// podTrouble is what a Pod waits for, to add to a line. One that only takes its time has no
// message.
func podTrouble(p *corev1.Pod) string {
	problem := show.ProblemOf(p)
	if problem.Message == "" {
		return ""
	}
	return "; " + p.Name + ": " + problem.Reason + ": " + problem.Message
}
