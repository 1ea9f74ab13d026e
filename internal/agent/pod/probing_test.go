package pod

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

// probes is a probe by the command of that name.
func probes(name string, delay, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{name}}},
		InitialDelaySeconds: delay, PeriodSeconds: 2, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: failures,
	}
}

// probed is a Pod with a command, and whatever edit does to its container.
func probed(policy corev1.RestartPolicy, edit func(c *corev1.Container)) *corev1.Pod {
	p := podtest.Job(policy)
	edit(&p.Spec.Containers[0])
	return p
}

func mainOf(p *corev1.Pod) corev1.ContainerStatus {
	if len(p.Status.ContainerStatuses) != 1 {
		return corev1.ContainerStatus{}
	}
	return p.Status.ContainerStatuses[0]
}

func conditionOf(p *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// awaitReady waits until the Pod runs, and is ready or not.
func (w *world) awaitReady(ready bool) *corev1.Pod {
	w.t.Helper()
	return w.awaitPod("a", "runs, and is or is not ready", func(p *corev1.Pod) bool {
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		return mainOf(p).State.Running != nil && mainOf(p).Ready == ready &&
			conditionOf(p, corev1.ContainersReady).Status == status && conditionOf(p, corev1.PodReady).Status == status
	})
}

func (w *world) awaitExec(words string) {
	w.t.Helper()
	n := w.host.execs.count(words)
	w.await(words+" runs in the guest", func() bool { return w.host.execs.count(words) > n })
}

// told reports an event with these words.
func (w *world) told(words string) bool {
	return slices.ContainsFunc(w.events.all(), func(line string) bool { return strings.Contains(line, words) })
}

func TestReadinessIsShown(t *testing.T) {
	w := newWorld(t, probed(corev1.RestartPolicyAlways, func(c *corev1.Container) { c.ReadinessProbe = probes("ready", 3, 1) }))
	w.host.execs.exits("ready", 1)
	w.startAgent()
	p := w.awaitReady(false)
	if s := mainOf(p); s.Started == nil || !*s.Started || p.Status.Phase != corev1.PodRunning {
		t.Errorf("it runs, and no startup probe is to be waited for: %+v", p.Status)
	}
	if c := conditionOf(p, corev1.PodReady); c.Reason != "ContainersNotReady" || !strings.Contains(c.Message, "[vm]") {
		t.Errorf("condition %+v", c)
	}
	w.awaitExec("ready")
	w.host.execs.exits("ready", 0)
	w.awaitReady(true)
	w.host.execs.exits("ready", 1)
	w.awaitReady(false)
	if !w.told("a Unhealthy Readiness probe failed: said ready") {
		t.Errorf("events %v", w.events.all())
	}
	if n := w.host.count("run "); n != 1 {
		t.Errorf("readiness restarted it: %v", w.host.history())
	}
}

func TestStartupIsShown(t *testing.T) {
	w := newWorld(t, probed(corev1.RestartPolicyAlways, func(c *corev1.Container) {
		c.StartupProbe, c.LivenessProbe = probes("up", 0, 1000), probes("alive", 0, 1)
	}))
	w.host.execs.exits("up", 1)
	w.host.execs.exits("alive", 0)
	w.startAgent()
	if s := mainOf(w.awaitReady(false)); s.Started == nil || *s.Started {
		t.Errorf("it has started already: %+v", s)
	}
	w.awaitExec("up")
	if n := w.host.execs.count("alive"); n != 0 {
		t.Error("liveness was probed before the start")
	}
	w.host.execs.exits("up", 0)
	if s := mainOf(w.awaitReady(true)); !*s.Started {
		t.Errorf("it is ready before it has started: %+v", s)
	}
	w.awaitExec("alive")
}

// TestAFailedProbeKillsTheContainer, and the restart policy decides what comes then.
func TestAFailedProbeKillsTheContainer(t *testing.T) {
	for _, c := range []struct {
		name     string
		policy   corev1.RestartPolicy
		edit     func(c *corev1.Container)
		message  string
		restarts bool
	}{
		{"liveness", corev1.RestartPolicyAlways, func(c *corev1.Container) { c.LivenessProbe = probes("check", 1, 2) }, "Container vm failed liveness probe, will be restarted", true},
		{"startup", corev1.RestartPolicyOnFailure, func(c *corev1.Container) { c.StartupProbe = probes("check", 1, 2) }, "Container vm failed startup probe, will be restarted", true},
		{"never", corev1.RestartPolicyNever, func(c *corev1.Container) { c.LivenessProbe = probes("check", 1, 2) }, "Container vm failed liveness probe", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, withLongGrace(probed(c.policy, c.edit)))
			w.host.execs.exits("check", 1)
			w.startAgent()
			w.await("it is told to end", func() bool { return w.host.count("signal tk-uid-a-0 main terminated") >= 1 })
			w.host.execs.exits("check", 0)
			end := func(p *corev1.Pod) *corev1.ContainerStateTerminated { return mainOf(p).LastTerminationState.Terminated }
			if !c.restarts {
				end = func(p *corev1.Pod) *corev1.ContainerStateTerminated { return mainOf(p).State.Terminated }
			}
			p := w.awaitPod("a", "has ended", func(p *corev1.Pod) bool {
				return end(p) != nil && (p.Status.Phase == corev1.PodFailed || mainOf(p).State.Running != nil)
			})
			if e := end(p); e.ExitCode != 143 || e.Reason != "Error" || (mainOf(p).RestartCount >= 1) != c.restarts {
				t.Errorf("%d restarts, end %+v", mainOf(p).RestartCount, e)
			}
			if !w.told("a Killing "+c.message) || !w.told("a Unhealthy ") || !w.events.of("Unhealthy", "spec.containers{vm}") {
				t.Errorf("events %v", w.events.all())
			}
		})
	}
}

// TestWhatIsKilledForItsProbesIsNoSuccess: a command that ends well when it is told to end
// has not done its work.
func TestWhatIsKilledForItsProbesIsNoSuccess(t *testing.T) {
	p := probed(corev1.RestartPolicyOnFailure, func(c *corev1.Container) { c.LivenessProbe = probes("check", 1, 1) })
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(36000))
	w := newWorld(t, p)
	w.host.guests.stubborn = true
	w.host.execs.exits("check", 1)
	w.startAgent()
	w.awaitSignal()
	w.host.execs.exits("check", 0)
	w.host.exit("main", exited(0))
	p = w.awaitPod("a", "is restarted", func(p *corev1.Pod) bool { return mainOf(p).State.Running != nil && mainOf(p).RestartCount == 1 })
	if e := mainOf(p).LastTerminationState.Terminated; e == nil || e.ExitCode != 0 {
		t.Errorf("end %+v", e)
	}
}

// TestTheGraceIsThatOfTheProbe, however long the Pod's is.
func TestTheGraceIsThatOfTheProbe(t *testing.T) {
	p := probed(corev1.RestartPolicyAlways, func(c *corev1.Container) {
		c.LivenessProbe = probes("check", 1, 1)
		c.LivenessProbe.TerminationGracePeriodSeconds = ptr.To(int64(5))
	})
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(longGrace))
	w := newWorld(t, p)
	w.host.guests.stubborn = true
	w.host.execs.exits("check", 1)
	w.frozen.Store(true) // a busy machine would use up the five seconds before it is told
	w.startAgent()
	w.await("the command is told to end", func() bool {
		w.clock.Step(10 * time.Millisecond)
		return w.host.count("signal tk-uid-a-0 main") > 0
	})
	begin := w.clock.Now()
	w.host.execs.exits("check", 0)
	w.frozen.Store(false)
	w.await("its guest goes down", func() bool { return w.host.count("stop tk-uid-a-0") > 0 })
	if took := w.clock.Since(begin); took > longButNoGrace {
		t.Errorf("it took %s", took)
	}
	now := w.awaitPod("a", "is restarted", func(p *corev1.Pod) bool { return mainOf(p).RestartCount == 1 })
	if e := mainOf(now).LastTerminationState.Terminated; e == nil || e.ExitCode != 137 {
		t.Errorf("end %+v", e)
	}
}

// TestAnotherAgentDoesNotFlipReadiness, nor waits for the start again.
func TestAnotherAgentDoesNotFlipReadiness(t *testing.T) {
	w := newWorld(t, probed(corev1.RestartPolicyAlways, func(c *corev1.Container) {
		c.StartupProbe, c.ReadinessProbe = probes("up", 0, 3), probes("ready", 0, 8)
	}))
	w.startAgent()
	since := conditionOf(w.awaitReady(true), corev1.PodReady).LastTransitionTime
	w.stopAgent()
	ups := w.host.execs.count("up")
	w.host.execs.hangs("ready", true)
	w.clock.Step(time.Hour)
	w.startAgent()
	w.awaitExec("ready")
	p := w.pod("a")
	if c := conditionOf(p, corev1.PodReady); c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Equal(&since) || !mainOf(p).Ready || !*mainOf(p).Started {
		t.Errorf("it was not ready for a while: %+v, %+v", c, mainOf(p))
	}
	if n := w.host.execs.count("up"); n != ups {
		t.Error("its start was probed again")
	}
	// A probe that hangs fails at its timeout, by this machine's clock.
	w.awaitReady(false)
}

// TestReadinessIsProbedUntilTheEnd: a Pod that is being deleted gets no more work, and is
// not killed for what its probes say.
func TestReadinessIsProbedUntilTheEnd(t *testing.T) {
	w := newWorld(t, probed(corev1.RestartPolicyAlways, func(c *corev1.Container) {
		c.LivenessProbe, c.ReadinessProbe = probes("alive", 0, 1), probes("ready", 0, 1)
	}))
	w.host.guests.stubborn = true
	w.startAgent()
	w.awaitReady(true)
	w.frozen.Store(true)
	w.deleteWithin(longGrace)
	w.awaitSignal()
	alive := w.host.execs.count("alive")
	w.host.execs.exits("ready", 1)
	w.host.execs.exits("alive", 1)
	w.frozen.Store(false)
	w.awaitReady(false)
	w.host.exit("main", exited(0))
	w.awaitGone("a")
	if n := w.host.execs.count("alive"); n > alive+1 || w.told("failed liveness") {
		t.Errorf("liveness was probed %d times more; events %v", n-alive, w.events.all())
	}
}

// TestWhatHasEndedIsNotUnhealthy: while its VM goes down, nobody is there to answer a probe.
func TestWhatHasEndedIsNotUnhealthy(t *testing.T) {
	p := probed(corev1.RestartPolicyAlways, func(c *corev1.Container) {
		c.LivenessProbe, c.ReadinessProbe = probes("alive", 0, 1), probes("ready", 0, 1)
	})
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](24 * 60 * 60) // outlasts a busy machine, where the clock runs on
	w := newWorld(t, p)
	w.host.stopGate = make(chan struct{})
	w.startAgent()
	w.awaitReady(true)
	w.host.execs.exits("alive", 1)
	w.await("its command has ended, and the VM has not", func() bool {
		w.host.mu.Lock()
		defer w.host.mu.Unlock()
		return len(w.host.graces) > 0
	})
	w.host.execs.exits("ready", 1)
	ran := w.host.execs.count("ready")
	w.await("it was probed again", func() bool { return w.host.execs.count("ready") > ran+1 })
	w.host.execs.exits("alive", 0)
	w.host.execs.exits("ready", 0)
	close(w.host.stopGate)
	w.await("it is restarted", func() bool {
		return w.events.count("a", "Killing") == 1 && w.pod("a").Status.ContainerStatuses[0].RestartCount == 1
	})
	if w.told("Readiness probe") {
		t.Errorf("events %v", w.events.all())
	}
}

// TestProbesEndWithTheContainer, and what was counted of them with the Pod.
func TestProbesEndWithTheContainer(t *testing.T) {
	w := newWorld(t, probed(corev1.RestartPolicyNever, func(c *corev1.Container) { c.ReadinessProbe = probes("ready", 0, 1) }))
	s := w.startAgent()
	w.awaitReady(true)
	if env := w.host.execs.env("ready"); !slices.Contains(env, "NAME=vm") {
		t.Errorf("the probe had the environment %v", env)
	}
	if text := s.ProbeMetrics(); !strings.Contains(text, `prober_probe_total{container="vm",namespace="ns",pod="a",pod_uid="uid-a",probe_type="Readiness",result="successful"}`) {
		t.Errorf("metrics:\n%s", text)
	}
	w.host.exit("main", exited(0))
	w.awaitPhase(corev1.PodSucceeded)
	ran := w.host.execs.count("ready")
	w.clock.Step(time.Minute)
	if n := w.host.execs.count("ready"); n != ran {
		t.Error("a container that has ended was probed")
	}
	w.delete("a")
	w.awaitGone("a")
	w.await("its counts are gone", func() bool { return !strings.Contains(s.ProbeMetrics(), "uid-a") })
}
