package pod

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func hooked(policy corev1.RestartPolicy) *corev1.Pod {
	return probed(policy, func(c *corev1.Container) {
		c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"hello"}}}}
	})
}

const helloID = "poststart-main"

func (w *world) awaitHook() {
	w.t.Helper()
	w.await("the hook runs", func() bool { return w.host.given(helloID) != nil })
}

// TestAContainerRunsOnceItsHookHasSucceeded, and not before.
func TestAContainerRunsOnceItsHookHasSucceeded(t *testing.T) {
	w := newWorld(t, hooked(corev1.RestartPolicyNever))
	w.host.guests.hold[helloID] = true
	w.startAgent()
	w.awaitHook()
	w.awaitWaiting("ContainerCreating")
	// Another agent takes the hook up where it is.
	w.stopAgent()
	w.startAgent()
	w.awaitWaiting("ContainerCreating")
	w.host.exit(helloID, exited(0))
	w.awaitRunning("a")
	w.stopAgent()
	w.startAgent()
	w.awaitRunning("a")
	w.host.exit("main", exited(0))
	w.awaitPhase(corev1.PodSucceeded)
	if n := w.host.count("exec tk-uid-a-0 " + helloID); n != 1 {
		t.Errorf("the hook ran %d times", n)
	}
	if w.events.count("a", "FailedPostStartHook") != 0 {
		t.Errorf("events %v", w.events.all())
	}
}

// A hook that ends while no agent is there has ended.
func TestAHookThatEndsWhileTheAgentIsAwayCounts(t *testing.T) {
	w := newWorld(t, hooked(corev1.RestartPolicyNever))
	w.host.guests.hold[helloID] = true
	w.startAgent()
	w.awaitHook()
	w.stopAgent()
	w.host.exit(helloID, exited(3))
	w.startAgent()
	w.awaitPhase(corev1.PodFailed)
	if n := w.host.count("exec tk-uid-a-0 " + helloID); n != 1 || !w.told("a FailedPostStartHook PostStartHook failed") {
		t.Errorf("the hook ran %d times, events %v", n, w.events.all())
	}
}

// What a hook was given may be gone once it has begun: another agent asks for none of it.
func TestAHookThatHasBegunNeedsNoEnvironment(t *testing.T) {
	for name, endsAway := range map[string]bool{"it runs": false, "it has succeeded": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hooked(corev1.RestartPolicyNever))
			w.host.guests.hold[helloID] = true
			w.startAgent()
			w.awaitHook()
			w.stopAgent()
			w.inputs.unresolved = errors.New("its Secret was deleted")
			if endsAway {
				w.host.exit(helloID, exited(0))
			}
			w.startAgent()
			if !endsAway {
				w.awaitWaiting("ContainerCreating")
				w.host.exit(helloID, exited(0))
			}
			p := w.awaitPod("a", "is past its hook", func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodPending })
			if p.Status.Phase != corev1.PodRunning || w.told("FailedPostStartHook") {
				t.Errorf("phase %s, events %v", p.Status.Phase, w.events.all())
			}
		})
	}
}

// TestAHookThatFailsKillsTheContainer, and the restart policy decides what comes then.
func TestAHookThatFailsKillsTheContainer(t *testing.T) {
	w := newWorld(t, withLongGrace(hooked(corev1.RestartPolicyNever)))
	w.host.guests.codes[helloID] = 1
	w.startAgent()
	p := w.awaitPhase(corev1.PodFailed)
	if e := mainOf(p).State.Terminated; e == nil || e.ExitCode != 143 {
		t.Errorf("end %+v", e)
	}
	if !w.told("a FailedPostStartHook PostStartHook failed") || !w.told("a Killing FailedPostStartHook") {
		t.Errorf("events %v", w.events.all())
	}

	w = newWorld(t, hooked(corev1.RestartPolicyOnFailure))
	w.host.guests.codes[helloID] = 1
	w.startAgent()
	w.await("the hook fails", func() bool { return w.told("FailedPostStartHook") })
	w.host.mu.Lock()
	w.host.guests.codes[helloID] = 0
	w.host.mu.Unlock()
	if p := w.awaitRunning("a"); mainOf(p).RestartCount == 0 {
		t.Errorf("status %+v", mainOf(p))
	}
}

// TestACommandThatEndsDuringItsHookHasItsOwnExit, and takes the hook with it.
func TestACommandThatEndsDuringItsHookHasItsOwnExit(t *testing.T) {
	w := newWorld(t, hooked(corev1.RestartPolicyNever))
	w.host.guests.hold[helloID] = true
	w.startAgent()
	w.awaitHook()
	w.host.exit("main", exited(0))
	p := w.awaitPhase(corev1.PodSucceeded)
	if e := mainOf(p).State.Terminated; e == nil || e.ExitCode != 0 || w.host.count("signal tk-uid-a-0 main") != 0 || w.host.count("signal tk-uid-a-0 "+helloID+" killed") != 1 {
		t.Errorf("end %+v, %v", e, w.host.history())
	}
}

// TestADeletionDoesNotWaitForAHook.
func TestADeletionDoesNotWaitForAHook(t *testing.T) {
	w := newWorld(t, hooked(corev1.RestartPolicyAlways))
	w.host.guests.hold[helloID] = true
	w.startAgent()
	w.awaitHook()
	w.deleteWithin(longGrace)
	w.awaitGone("a")
	if w.told("FailedPostStartHook") || w.host.count("signal tk-uid-a-0 main") == 0 {
		t.Errorf("events %v, history %v", w.events.all(), w.host.history())
	}
}
