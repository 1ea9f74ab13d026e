package main

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

func demoPod(name, app string, ready corev1.ConditionStatus, waits *corev1.ContainerStateWaiting) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodPending,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
			ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: waits}}},
		},
	}
}

func TestTheDemoTellsWhyPodsDoNotRun(t *testing.T) {
	creating := &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	broken := &corev1.ContainerStateWaiting{Reason: "RunContainerError", Message: "tart exited with 1"}
	for name, c := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"none":              {nil, "0 of 3 running"},
		"on their way":      {[]corev1.Pod{demoPod("a", demoApp, corev1.ConditionFalse, creating)}, "0 of 3 running"},
		"a later one tells": {[]corev1.Pod{demoPod("a", demoApp, corev1.ConditionFalse, creating), demoPod("b", demoApp, corev1.ConditionFalse, broken)}, "0 of 3 running; b: RunContainerError: tart exited with 1"},
		"one that is ready": {[]corev1.Pod{demoPod("a", demoApp, corev1.ConditionTrue, broken)}, "1 of 3 running"},
		"somebody else's":   {[]corev1.Pod{demoPod("a", "theirs", corev1.ConditionFalse, broken)}, "0 of 3 running"},
	} {
		if got, _ := (&story{}).allPodsReady(&snapshot.Snapshot{Pods: c.pods}); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestWhatBecomesOfTheSandboxOfAStory(t *testing.T) {
	for name, c := range map[string]struct {
		keep, failed, interrupted bool
		stays                     bool
		says                      string
	}{
		"it ended":               {},
		"it ended, kept":         {keep: true, stays: true, says: "kept"},
		"it failed":              {failed: true, says: "With --keep they stay"},
		"it failed, kept":        {keep: true, failed: true, stays: true, says: "as it was when this failed"},
		"it was interrupted":     {failed: true, interrupted: true},
		"interrupted, kept":      {keep: true, failed: true, interrupted: true},
		"interrupted at the end": {keep: true, interrupted: true, stays: true, says: "kept"},
	} {
		stays, says := fate(c.keep, c.failed, c.interrupted, "kept")
		if stays != c.stays || !strings.Contains(says, c.says) || says != "" && c.says == "" {
			t.Errorf("%s: stays %v, says %q", name, stays, says)
		}
	}
}

func TestALineThatMovesFitsTheTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		width int
		want  string
	}{
		"it fits":           {"wiping", 8, "wiping"},
		"it does not":       {"wiping 3", 7, "wipin…"},
		"letters, no bytes": {"größe 3 größer", 9, "größe 3…"},
		"fits by letters":   {"größer", 7, "größer"},
		"unknown":           {"wiping", 0, "wiping"},
		"hardly any":        {"wiping", 2, "wiping"},
	} {
		if got := fit(c.text, c.width); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	var out bytes.Buffer
	p := &progress{out: &out, terminal: true, width: func() int { return 12 }}
	p.step("waiting: 1 of 20")
	if got, want := out.String(), "\r\033[K| waiting:…"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
