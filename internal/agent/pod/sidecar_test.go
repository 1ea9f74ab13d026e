package pod

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// withSidecar is a Pod with a sidecar proxy, an init container and a main one.
func withSidecar(policy corev1.RestartPolicy) *corev1.Pod {
	return podtest.Sidecars(podtest.Job(policy, "prepare"), "proxy")
}

func startupProbe(command string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{command}}},
		PeriodSeconds: 1, FailureThreshold: 1000, SuccessThreshold: 1, TimeoutSeconds: 1,
	}
}

// What comes after a sidecar waits for its startup probe, and what it does after that does not
// decide the phase.
func TestASidecarStartsBeforeTheOthers(t *testing.T) {
	p := withLongGrace(withSidecar(corev1.RestartPolicyNever))
	p.Spec.InitContainers[0].StartupProbe = startupProbe("up")
	w := newWorld(t, p)
	w.host.guests.hold["init-0"] = true
	w.host.execs.exits("up", 1)
	w.startAgent()
	p = w.awaitContainer("proxy", "runs", func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	w.await("it is probed", func() bool { return w.host.execs.count("up") > 2 })
	if w.host.given("init-1") != nil || *of(p, "proxy").Started || state.ConditionOf(p.Status.Conditions, corev1.PodInitialized) != corev1.ConditionFalse {
		t.Errorf("proxy %+v, host %v", of(p, "proxy"), w.host.history())
	}
	w.host.execs.exits("up", 0)
	p = w.awaitAllRunning()
	if !of(p, "proxy").Ready || !*of(p, "proxy").Started || of(p, "prepare").State.Terminated == nil {
		t.Errorf("proxy %+v, prepare %+v", of(p, "proxy"), of(p, "prepare"))
	}
	w.host.exit("init-0", exited(2))
	p = w.awaitContainer("proxy", "was restarted", func(c corev1.ContainerStatus) bool { return c.RestartCount == 1 && c.Ready })
	if p.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s", p.Status.Phase)
	}
	w.host.exit("main", exited(0))
	p = w.awaitPhase(corev1.PodSucceeded)
	if e := of(p, "proxy").State.Terminated; e == nil || e.ExitCode != 143 {
		t.Errorf("the sidecar ended with %+v", of(p, "proxy").State)
	}
	want := []string{
		"create tk-uid-a-0", "run tk-uid-a-0", "exec tk-uid-a-0 init-0", "exec tk-uid-a-0 init-1", "exec tk-uid-a-0 main",
		"exec tk-uid-a-0 init-0-r1", "signal tk-uid-a-0 init-0-r1 terminated", "stop tk-uid-a-0", "delete tk-uid-a-0",
	}
	if d := cmp.Diff(want, w.host.history()); d != "" {
		t.Errorf("host (-want +got):\n%s", d)
	}
}

// Sidecars end after all others, the last one first.
func TestSidecarsEndInReverse(t *testing.T) {
	for name, deleted := range map[string]bool{"with their Pod": true, "after its command": false} {
		t.Run(name, func(t *testing.T) {
			p := withLongGrace(podtest.Sidecars(podtest.Job(corev1.RestartPolicyNever), "one", "two"))
			w := newWorld(t, p)
			w.host.guests.hold["init-0"], w.host.guests.hold["init-1"] = true, true
			w.startAgent()
			w.awaitAllRunning()
			want := []string{"signal tk-uid-a-0 init-1 terminated", "signal tk-uid-a-0 init-0 terminated"}
			if deleted {
				w.deleteWithin(longGrace)
				w.awaitGone("a")
				want = slices.Insert(want, 0, "signal tk-uid-a-0 main terminated")
			} else {
				w.host.exit("main", exited(3))
				w.awaitPhase(corev1.PodFailed)
			}
			got := slices.DeleteFunc(w.host.history(), func(l string) bool { return l[:4] != "sign" })
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("host (-want +got):\n%s", d)
			}
			if !w.events.of("Killing", "spec.initContainers{one}") || !w.events.of("Killing", "spec.initContainers{two}") {
				t.Errorf("events %v", w.events.all())
			}
		})
	}
}

// A container that takes all of the grace leaves sidecars two seconds all the same, as with a kubelet: killed is what is
// still there then.
func TestSidecarsHaveTwoSecondsOfTheirOwn(t *testing.T) {
	p, deadline, grace := podtest.Sidecars(podtest.Job(corev1.RestartPolicyNever), "one", "two"), int64(late), int64(30)
	p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = &deadline, &grace
	w := newWorld(t, p)
	w.host.guests.hold["init-0"], w.host.guests.hold["init-1"] = true, true
	w.host.guests.deaf = map[string]bool{"main": true, "init-0": true}
	w.startAgent()
	w.awaitAllRunning()
	w.frozen.Store(true)
	w.overdue()
	w.awaitSignal()
	if n := w.host.count("signal tk-uid-a-0 init-"); n != 0 {
		t.Fatalf("sidecars were told before the main container had ended: %v", w.host.history())
	}
	w.clock.Step(27 * time.Second) // a tenth of the grace is the guest's
	w.await("both sidecars are told", func() bool {
		if w.host.count("signal tk-uid-a-0 init-") == 0 {
			w.clock.Step(5 * time.Millisecond) // who did not wait yet
		}
		return w.host.count("signal tk-uid-a-0 init-0 terminated") == 1 && w.host.count("signal tk-uid-a-0 init-1 terminated") == 1
	})
	w.await("the guest goes down", func() bool {
		w.clock.Step(20 * time.Millisecond)
		return w.host.count("stop") == 1
	})
	if had := w.host.between("signal tk-uid-a-0 init-0 terminated", "stop tk-uid-a-0"); had < 1900*time.Millisecond { // it may be told some steps after its seconds began
		t.Errorf("the sidecar had %s: %v", had, w.host.history())
	}
	w.frozen.Store(false)
	p = w.awaitPhase(corev1.PodFailed)
	for name, code := range map[string]int32{"vm": 137, "one": 137, "two": 143} {
		if e := of(p, name).State.Terminated; e == nil || e.ExitCode != code {
			t.Errorf("%s ended with %+v, want %d", name, e, code)
		}
	}
}

// The preStop hook of a sidecar runs as soon as its Pod is to end, as a kubelet has it; the sidecar is told in its turn.
func TestHooksOfSidecarsAwaitNoTurn(t *testing.T) {
	p := podtest.Sidecars(podtest.Job(corev1.RestartPolicyNever), "proxy")
	p.Spec.InitContainers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"say", "bye"}}}}
	w := newWorld(t, p)
	w.host.guests.hold["init-0"] = true
	w.host.guests.deaf = map[string]bool{"main": true}
	w.startAgent()
	w.awaitAllRunning()
	w.frozen.Store(true)
	w.deleteWithin(longGrace)
	w.awaitSignal()
	w.await("the hook runs", func() bool { return w.host.count("exec tk-uid-a-0 prestop-init-0") == 1 })
	if n := w.host.count("signal tk-uid-a-0 init-0"); n != 0 {
		t.Errorf("the sidecar was told too early: %v", w.host.history())
	}
	w.host.exit("main", exited(0))
	w.await("the sidecar is told", func() bool { return w.host.count("signal tk-uid-a-0 init-0 terminated") == 1 })
	w.frozen.Store(false)
	w.awaitGone("a")
}

// Where the main container restarts, the sidecar goes on.
func TestASidecarOutlivesARestart(t *testing.T) {
	w := newWorld(t, withSidecar(corev1.RestartPolicyOnFailure))
	w.host.guests.hold["init-0"] = true
	w.startAgent()
	w.awaitAllRunning()
	w.host.exit("main", exited(1))
	p := w.awaitContainer("vm", "was restarted", func(c corev1.ContainerStatus) bool { return c.RestartCount == 1 && c.Ready })
	if of(p, "proxy").RestartCount != 0 || of(p, "prepare").RestartCount != 0 || w.host.count("run") != 1 {
		t.Errorf("proxy %+v, prepare %+v, host %v", of(p, "proxy"), of(p, "prepare"), w.host.history())
	}
}

// An agent that comes while a sidecar is told to end gives the Pod the exit of its command.
func TestSidecarsEndOnceAcrossAgents(t *testing.T) {
	w := newWorld(t, withSidecar(corev1.RestartPolicyNever))
	w.host.guests.hold["init-0"] = true
	w.startAgent()
	w.awaitAllRunning()
	w.frozen.Store(true)
	w.host.mu.Lock()
	w.host.guests.stubborn = true
	w.host.mu.Unlock()
	w.host.exit("main", exited(0))
	w.await("the sidecar is told", func() bool { return w.host.count("signal") == 1 })
	w.stopAgent()
	w.startAgent()
	w.await("the VM is adopted", func() bool { return slices.Contains(w.events.reasons("a"), "Adopted") })
	w.frozen.Store(false)
	p := w.awaitPhase(corev1.PodSucceeded)
	if e := of(p, "proxy").State.Terminated; e == nil || e.ExitCode != 137 || w.host.count("signal") != 1 {
		t.Errorf("the sidecar ended with %+v, host %v", e, w.host.history())
	}
}

// An agent that comes while a sidecar waits for its restart looks after the containers that
// run already.
func TestASidecarHoldsUpNothingThatRuns(t *testing.T) {
	w := newWorld(t, withSidecar(corev1.RestartPolicyNever))
	w.host.guests.hold["init-0"] = true
	w.startAgent()
	w.awaitAllRunning()
	w.frozen.Store(true) // the second run is no long one
	w.host.exit("init-0", exited(1))
	w.awaitContainer("proxy", "was restarted", func(c corev1.ContainerStatus) bool { return c.RestartCount == 1 && c.Ready })
	w.host.exit("init-0-r1", exited(1))
	w.awaitContainer("proxy", "backs off", func(c corev1.ContainerStatus) bool { return c.State.Waiting != nil })
	w.stopAgent()
	w.startAgent()
	w.host.exit("main", exited(6))
	w.awaitContainer("vm", "has ended", hasEnded)
	w.awaitPhase(corev1.PodFailed)
	w.frozen.Store(false)
	if w.host.count("exec tk-uid-a-0 init-0-r2") != 0 {
		t.Errorf("host %v", w.host.history())
	}
}

// A sidecar that ends because an init container after it failed has the exit code of its own command.
func TestASidecarHasItsExitWhereAnInitContainerFails(t *testing.T) {
	w := newWorld(t, withLongGrace(withSidecar(corev1.RestartPolicyNever)))
	w.host.guests.hold["init-0"], w.host.guests.codes["init-1"] = true, 3
	w.startAgent()
	p := w.awaitPhase(corev1.PodFailed)
	if e := of(p, "prepare").State.Terminated; e == nil || e.ExitCode != 3 {
		t.Errorf("the init container ended with %+v", e)
	}
	if e := of(p, "proxy").State.Terminated; e == nil || e.ExitCode != 143 {
		t.Errorf("the sidecar ended with %+v", e)
	}
}
