package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func hooked(policy corev1.RestartPolicy) *corev1.Pod {
	return probed(policy, func(c *corev1.Container) {
		c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"hello"}}}}
	})
}

// TestAContainerRunsOnceItsHookHasSucceeded, and not before.
func TestAContainerRunsOnceItsHookHasSucceeded(t *testing.T) {
	w := newWorld(t, hooked(corev1.RestartPolicyNever))
	w.host.execs.hangs("hello", true)
	w.startAgent()
	w.awaitExec("hello")
	w.awaitWaiting("ContainerCreating")
	// Another agent runs the hook again, as nobody knows how far it came.
	w.stopAgent()
	w.host.execs.hangs("hello", false)
	w.startAgent()
	w.awaitRunning("a")
	ran := w.host.execs.count("hello")
	w.stopAgent()
	w.startAgent()
	w.awaitRunning("a")
	w.host.exit("main", exited(0))
	w.awaitPhase(corev1.PodSucceeded)
	if n := w.host.execs.count("hello"); ran != 2 || n != ran {
		t.Errorf("the hook ran %d times, and then %d", ran, n-ran)
	}
	if w.events.count("a", "FailedPostStartHook") != 0 {
		t.Errorf("events %v", w.events.all())
	}
}

// TestAHookThatFailsKillsTheContainer, and the restart policy decides what comes then.
func TestAHookThatFailsKillsTheContainer(t *testing.T) {
	w := newWorld(t, hooked(corev1.RestartPolicyNever))
	w.host.execs.exits("hello", 1)
	w.startAgent()
	p := w.awaitPhase(corev1.PodFailed)
	if e := mainOf(p).State.Terminated; e == nil || e.ExitCode != 143 {
		t.Errorf("end %+v", e)
	}
	if !w.told("a FailedPostStartHook PostStartHook failed") || !w.told("a Killing FailedPostStartHook") {
		t.Errorf("events %v", w.events.all())
	}

	w = newWorld(t, hooked(corev1.RestartPolicyOnFailure))
	w.host.execs.exits("hello", 1)
	w.startAgent()
	w.await("the hook fails", func() bool { return w.told("FailedPostStartHook") })
	w.host.execs.exits("hello", 0)
	if p := w.awaitRunning("a"); mainOf(p).RestartCount == 0 {
		t.Errorf("status %+v", mainOf(p))
	}
}

// TestACommandThatEndsDuringItsHookHasItsOwnExit.
func TestACommandThatEndsDuringItsHookHasItsOwnExit(t *testing.T) {
	w := newWorld(t, hooked(corev1.RestartPolicyNever))
	w.host.execs.hangs("hello", true)
	w.startAgent()
	w.awaitExec("hello")
	w.host.exit("main", exited(0))
	p := w.awaitPhase(corev1.PodSucceeded)
	if e := mainOf(p).State.Terminated; e == nil || e.ExitCode != 0 || w.host.count("signal") != 0 {
		t.Errorf("end %+v, %v", e, w.host.history())
	}
}

// TestADeletionDoesNotWaitForAHook.
func TestADeletionDoesNotWaitForAHook(t *testing.T) {
	w := newWorld(t, hooked(corev1.RestartPolicyAlways))
	w.host.execs.hangs("hello", true)
	w.startAgent()
	w.awaitExec("hello")
	w.delete("a")
	w.awaitGone("a")
	if w.told("FailedPostStartHook") || w.host.count("signal tk-uid-a-0 main") == 0 {
		t.Errorf("events %v, history %v", w.events.all(), w.host.history())
	}
}
