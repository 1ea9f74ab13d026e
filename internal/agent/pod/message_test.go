package pod

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

func TestAContainersMessageIsThatOfItsFile(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.host.guests.leave = map[string][]string{"message-main": {"the tests passed"}}
	w.startAgent()
	w.awaitRunning("a")
	w.host.exit("main", exited(0))
	e := w.awaitPhase(corev1.PodSucceeded).Status.ContainerStatuses[0].State.Terminated
	if e == nil || e.Message != "the tests passed\n" {
		t.Errorf("terminated %+v", e)
	}
}

// What ends with its Pod, or for its probe, is told to end: nothing else asks for its message then.
func TestAContainerThatIsToldToEndLeavesItsMessage(t *testing.T) {
	deadline := int64(late)
	for name, c := range map[string]struct {
		edit func(p *corev1.Pod)
		ends func(w *world)
	}{
		"deleted":      {func(*corev1.Pod) {}, func(w *world) { w.deleteWithin(36000) }},
		"its deadline": {func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &deadline }, func(w *world) { w.overdue() }},
		"its probe":    {func(p *corev1.Pod) { p.Spec.Containers[0].LivenessProbe = probes("check", 1, 1) }, func(w *world) { w.host.execs.exits("check", 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			p, grace := podtest.Job(corev1.RestartPolicyNever), int64(36000)
			p.Spec.TerminationGracePeriodSeconds = &grace
			c.edit(p)
			w := newWorld(t, p)
			w.host.guests.leave = map[string][]string{"message-main": {"half of the tests passed"}}
			w.startAgent()
			w.awaitRunning("a")
			c.ends(w)
			w.await("its end is shown", func() bool { return w.shownEnd() != nil })
			if e := w.shownEnd(); e.ExitCode != 143 || e.Message != "half of the tests passed\n" {
				t.Errorf("end %+v", e)
			}
		})
	}
}

// Without a message, the end of the log stands in where the Pod says so.
func TestTheLogStandsInForAMessage(t *testing.T) {
	for policy, want := range map[corev1.TerminationMessagePolicy]string{
		corev1.TerminationMessageFallbackToLogsOnError: "no such scheme\n", corev1.TerminationMessageReadFile: "",
	} {
		p := podtest.Job(corev1.RestartPolicyNever)
		p.Spec.Containers[0].TerminationMessagePolicy = policy
		w := newWorld(t, p)
		w.startAgent()
		w.awaitRunning("a")
		log := filepath.Join(w.dir, "pods", "uid-a", "attempt-0", "main.log")
		if err := os.WriteFile(log, []byte("2026-01-01T00:00:00Z stderr F no such scheme\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.host.exit("main", exited(3))
		e := w.awaitPhase(corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated
		if e == nil || e.Message != want {
			t.Errorf("%s: terminated %+v", policy, e)
		}
	}
}

func TestEventsNameTheContainer(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever, "one"))
	w.startAgent()
	w.awaitRunning("a")
	w.await("its event", func() bool {
		w.events.mu.Lock()
		defer w.events.mu.Unlock()
		return slices.Contains(w.events.paths, "Started spec.containers{vm}") && slices.Contains(w.events.paths, "Started spec.initContainers{one}") &&
			slices.Contains(w.events.paths, "Pulled spec.containers{vm}")
	})
}
