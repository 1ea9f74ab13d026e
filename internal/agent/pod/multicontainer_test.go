package pod

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// two is a Pod whose container web runs beside its main one.
func two(policy corev1.RestartPolicy) *corev1.Pod { return podtest.Beside(podtest.Job(policy), "web") }

func (w *world) awaitAllRunning() *corev1.Pod {
	w.t.Helper()
	return w.awaitPod("a", "runs with all of its containers", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && state.ConditionOf(p.Status.Conditions, corev1.PodReady) == corev1.ConditionTrue
	})
}

func of(p *corev1.Pod, name string) corev1.ContainerStatus { return statusOf(p, name) }

// awaitContainer waits until the status of a container is as asked.
func (w *world) awaitContainer(name, what string, is func(corev1.ContainerStatus) bool) *corev1.Pod {
	w.t.Helper()
	return w.awaitPod("a", "has a container "+name+" that "+what, func(p *corev1.Pod) bool { return is(of(p, name)) })
}

func hasEnded(s corev1.ContainerStatus) bool { return s.State.Terminated != nil }

func TestContainersRunBesideOneAnother(t *testing.T) {
	for _, c := range []struct {
		name          string
		policy        corev1.RestartPolicy
		first, second string
		codes         [2]int
		phase         corev1.PodPhase
	}{
		{"all succeed", corev1.RestartPolicyNever, "main", "c-1", [2]int{0, 0}, corev1.PodSucceeded},
		{"the main one fails", corev1.RestartPolicyNever, "main", "c-1", [2]int{3, 0}, corev1.PodFailed},
		{"the other one fails", corev1.RestartPolicyNever, "c-1", "main", [2]int{4, 0}, corev1.PodFailed},
		{"both fail", corev1.RestartPolicyNever, "c-1", "main", [2]int{4, 5}, corev1.PodFailed},
		{"all succeed in the end", corev1.RestartPolicyOnFailure, "main", "c-1", [2]int{0, 0}, corev1.PodSucceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, two(c.policy))
			w.startAgent()
			w.awaitAllRunning()
			names := map[string]string{"main": "vm", "c-1": "web"}
			w.host.exit(c.first, exited(c.codes[0]))
			p := w.awaitContainer(names[c.first], "has ended", hasEnded)
			if p.Status.Phase != corev1.PodRunning || of(p, names[c.second]).State.Running == nil {
				t.Errorf("after one end the Pod is %s, the other container %+v", p.Status.Phase, of(p, names[c.second]).State)
			}
			w.host.exit(c.second, exited(c.codes[1]))
			p = w.awaitPhase(c.phase)
			for i, id := range []string{c.first, c.second} {
				if e := of(p, names[id]).State.Terminated; e == nil || e.ExitCode != int32(c.codes[i]) {
					t.Errorf("%s: %+v", id, e)
				}
			}
			want := []string{"create tk-uid-a-0", "run tk-uid-a-0", "exec tk-uid-a-0 main", "exec tk-uid-a-0 c-1", "stop tk-uid-a-0", "delete tk-uid-a-0"}
			if d := cmp.Diff(want, w.host.history()); d != "" {
				t.Errorf("host (-want +got):\n%s", d)
			}
		})
	}
}

// The container that ended runs again in the same guest, with its back-off, and the other one
// goes on.
func TestAContainerIsRestartedInItsGuest(t *testing.T) {
	w := newWorld(t, two(corev1.RestartPolicyAlways))
	s := w.startAgent()
	before := w.awaitAllRunning()
	w.frozen.Store(true) // the second run is no long one
	w.host.exit("c-1", exited(1))
	p := w.awaitContainer("web", "was restarted", func(c corev1.ContainerStatus) bool { return c.RestartCount == 1 && c.Ready })
	if d := cmp.Diff(of(before, "vm"), of(p, "vm")); d != "" {
		t.Errorf("the other container changed (-before +after):\n%s", d)
	}
	last := of(p, "web").LastTerminationState.Terminated
	if last == nil || last.ExitCode != 1 || last.ContainerID != "tart://tk-uid-a-0/web" || of(p, "web").ContainerID != "tart://tk-uid-a-0/web/1" {
		t.Errorf("web: %+v", of(p, "web"))
	}
	w.host.exit("c-1-r1", exited(0))
	p = w.awaitContainer("web", "backs off", func(c corev1.ContainerStatus) bool { return c.State.Waiting != nil })
	if r := of(p, "web").State.Waiting; r.Reason != "CrashLoopBackOff" || p.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s, waiting %+v", p.Status.Phase, r)
	}
	if c := w.container(s, "web"); c.Running || filepath.Base(c.Log) != "c-1-r1.log" {
		t.Errorf("container %+v", c)
	}
	w.frozen.Store(false)
	w.awaitContainer("web", "was restarted again", func(c corev1.ContainerStatus) bool { return c.RestartCount == 2 && c.Ready })
	c := w.container(s, "web")
	if !c.Running || c.ID != "c-1-r2" || filepath.Base(c.Log) != "c-1-r2.log" || filepath.Base(c.PreviousLog) != "c-1-r1.log" {
		t.Errorf("container %+v", c)
	}
	if w.host.count("run") != 1 || w.mains() != 1 {
		t.Errorf("host: %v", w.host.history())
	}
}

// Ends that happen while no agent is there are found, and nothing runs twice.
func TestContainersOutliveTheAgent(t *testing.T) {
	w := newWorld(t, two(corev1.RestartPolicyOnFailure))
	w.startAgent()
	w.awaitAllRunning()
	w.host.exit("c-1", exited(7))
	w.awaitContainer("web", "was restarted", func(c corev1.ContainerStatus) bool { return c.RestartCount == 1 && c.Ready })
	before := w.awaitAllRunning()
	w.stopAgent()
	w.startAgent()
	w.await("the VM is adopted", func() bool { return slices.Contains(w.events.reasons("a"), "Adopted") })
	if d := cmp.Diff(before.Status, w.awaitAllRunning().Status); d != "" {
		t.Errorf("the status changed with the agent (-before +after):\n%s", d)
	}
	w.stopAgent()
	w.host.exit("main", exited(0))
	w.host.exit("c-1-r1", exited(9))
	w.startAgent()
	p := w.awaitContainer("web", "was restarted", func(c corev1.ContainerStatus) bool { return c.RestartCount == 2 && c.Ready })
	if e := of(p, "vm").State.Terminated; e == nil || e.ExitCode != 0 {
		t.Errorf("the main container: %+v", of(p, "vm").State)
	}
	if e := of(p, "web").LastTerminationState.Terminated; e == nil || e.ExitCode != 9 {
		t.Errorf("the last end: %+v", e)
	}
	w.stopAgent()
	w.host.exit("c-1-r2", exited(0))
	w.startAgent()
	w.awaitPhase(corev1.PodSucceeded)
	for _, id := range []string{"main", "c-1", "c-1-r1", "c-1-r2"} {
		if n := len(slices.DeleteFunc(w.host.history(), func(l string) bool { return l != "exec tk-uid-a-0 "+id })); n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
}

// A VM that dies ends all; what had succeeded for good does not run again.
func TestTheEndOfTheVMEndsAllContainers(t *testing.T) {
	for policy, again := range map[corev1.RestartPolicy][]string{
		corev1.RestartPolicyNever: nil, corev1.RestartPolicyOnFailure: {"c-1"}, corev1.RestartPolicyAlways: {"c-1", "main"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t, two(policy))
			w.startAgent()
			w.awaitAllRunning()
			if policy != corev1.RestartPolicyAlways {
				w.host.exit("main", exited(0))
				w.awaitContainer("vm", "has ended", hasEnded)
			}
			w.host.end("tk-uid-a-0", vm.RunEnd{Tail: "due to error"}, "end")
			if policy == corev1.RestartPolicyNever {
				p := w.awaitPhase(corev1.PodFailed)
				if e := of(p, "web").State.Terminated; e == nil || e.ExitCode == 0 || of(p, "vm").State.Terminated.ExitCode != 0 {
					t.Errorf("web %+v, main %+v", of(p, "web").State, of(p, "vm").State)
				}
			} else {
				p := w.awaitContainer("web", "was restarted", func(c corev1.ContainerStatus) bool { return c.RestartCount == 1 && c.Ready })
				if e := of(p, "vm").State.Terminated; policy == corev1.RestartPolicyOnFailure && (e == nil || e.ExitCode != 0) {
					t.Errorf("main %+v", of(p, "vm").State)
				}
				w.await("the second VM runs its commands", func() bool { return w.host.count("exec tk-uid-a-1") == len(again) })
			}
			ran := map[string]bool{}
			for _, id := range []string{"main", "c-1"} {
				if slices.Contains(w.host.history(), "exec tk-uid-a-1 "+id) {
					ran[id] = true
				}
			}
			if d := cmp.Diff(again, slices.Sorted(maps.Keys(ran))); d != "" {
				t.Errorf("ran again (-want +got):\n%s", d)
			}
		})
	}
}

// A deletion tells all containers to end at once, and each has its own exit code.
func TestADeletionEndsAllContainers(t *testing.T) {
	p := two(corev1.RestartPolicyAlways)
	p.Spec.Containers[1].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"say", "bye"}}}}
	w := newWorld(t, p)
	w.startAgent()
	w.awaitAllRunning()
	w.deleteWithin(longGrace)
	w.awaitGone("a")
	got := slices.Sorted(slices.Values(w.host.history()[4:]))
	want := []string{"delete tk-uid-a-0", "exec tk-uid-a-0 prestop-c-1", "signal tk-uid-a-0 c-1 terminated", "signal tk-uid-a-0 main terminated", "stop tk-uid-a-0"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("host (-want +got):\n%s", d)
	}
	if e := w.phases.end; e == nil || e.ExitCode != 143 {
		t.Errorf("the main container ended with %+v", e)
	}
	for _, name := range []string{"vm", "web"} {
		if !w.told("a Killing Stopping container "+name) || !w.events.of("Killing", "spec.containers{"+name+"}") {
			t.Errorf("%s: %v", name, w.events.all())
		}
	}
}

// An agent that is restarted in the middle tells nobody twice.
func TestTheEndOfContainersIsToldOnce(t *testing.T) {
	w := newWorld(t, two(corev1.RestartPolicyNever))
	w.host.guests.stubborn = true
	w.frozen.Store(true)
	w.startAgent()
	w.awaitAllRunning()
	w.delete("a")
	told := func() int { return w.host.count("signal") }
	w.await("both are told", func() bool { return told() == 2 })
	w.stopAgent()
	w.startAgent()
	w.host.exit("main", exited(0))
	w.host.exit("c-1", exited(0))
	w.frozen.Store(false)
	w.awaitGone("a")
	if told() != 2 {
		t.Errorf("host: %v", w.host.history())
	}
}

// A probe that fails kills its own container only.
func TestAProbeKillsItsContainerAlone(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		p := two(corev1.RestartPolicyAlways)
		p.Spec.Containers[1].LivenessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check"}}},
			PeriodSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1, TimeoutSeconds: 1,
		}
		if !stubborn {
			p = withLongGrace(p)
		}
		w := newWorld(t, p)
		w.host.guests.stubborn = stubborn
		w.startAgent()
		w.awaitAllRunning()
		w.host.execs.exits("check", 1)
		p = w.awaitContainer("web", "was restarted", func(c corev1.ContainerStatus) bool { return c.RestartCount >= 1 })
		w.host.execs.exits("check", 0)
		code := int32(143)
		if stubborn {
			code = 137
		}
		if e := of(p, "web").LastTerminationState.Terminated; e == nil || e.ExitCode != code {
			t.Errorf("stubborn %t: the end %+v", stubborn, e)
		}
		if of(p, "vm").RestartCount != 0 || of(p, "vm").State.Running == nil || w.host.count("run") != 1 {
			t.Errorf("the main container %+v, host %v", of(p, "vm"), w.host.history())
		}
		if !slices.Contains(w.events.all(), "a Killing Container web failed liveness probe, will be restarted") {
			t.Errorf("events %v", w.events.all())
		}
	}
}

// What a container leaves in its guest would run beside its next run: its end kills that. Init
// containers may leave daemons, and the guest of a single container goes down.
func TestTheEndOfAContainerKillsWhatItLeaves(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	several := two(corev1.RestartPolicyNever)
	several.Spec.InitContainers = []corev1.Container{
		{Name: "prepare", Image: several.Spec.Containers[0].Image, Command: []string{"prepare"}},
		{Name: "cache", Image: several.Spec.Containers[0].Image, Command: []string{"cache"}, RestartPolicy: &always},
	}
	for _, c := range []struct {
		pod  *corev1.Pod
		want map[string]bool
	}{
		{several, map[string]bool{"init-0": false, "init-1": true, "main": true, "c-1": true}},
		{podtest.Job(corev1.RestartPolicyNever, "one"), map[string]bool{"init-0": false, "main": false}},
	} {
		w := newWorld(t, c.pod)
		w.host.guests.hold["init-1"] = true
		w.startAgent()
		w.await("all have begun", func() bool { return w.host.count("exec") == len(c.want) })
		for id, kills := range c.want {
			if got := w.host.given(id).Command.KillGroup; got != kills {
				t.Errorf("%s: %t", id, got)
			}
		}
	}
}

// A preStop hook that is given up does not go on beside the next run of its container.
func TestAPreStopHookEndsWithItsContainer(t *testing.T) {
	for name, itself := range map[string]bool{"the container ends by itself": true, "the grace is over": false} {
		t.Run(name, func(t *testing.T) {
			p := two(corev1.RestartPolicyAlways)
			p.Spec.Containers[1].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"say", "bye"}}}}
			p.Spec.Containers[1].LivenessProbe = probes("check", 1, 1)
			w := newWorld(t, p)
			w.host.guests.hold["prestop-c-1"] = true
			w.startAgent()
			w.awaitAllRunning()
			w.host.execs.exits("check", 1)
			w.await("the hook runs", func() bool {
				w.frozen.Store(itself && w.host.given("prestop-c-1") != nil)
				return w.host.given("prestop-c-1") != nil
			})
			w.host.execs.exits("check", 0)
			if itself {
				w.host.exit("c-1", exited(1))
			}
			w.frozen.Store(false)
			w.awaitContainer("web", "was restarted", func(c corev1.ContainerStatus) bool { return c.RestartCount >= 1 && c.Ready })
			at := w.order("exec tk-uid-a-0 prestop-c-1", "signal tk-uid-a-0 prestop-c-1 killed", "exec tk-uid-a-0 c-1-r1")
			if at[0] < 0 || at[1] < at[0] || at[2] < at[1] {
				t.Errorf("host: %v", w.host.history())
			}
		})
	}
}

// A command of which nobody knows how it ended is not run again beside itself.
func TestALostCommandEndsTheAttemptOfAll(t *testing.T) {
	w := newWorld(t, two(corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitAllRunning()
	w.host.exit("c-1", shim.CommandEnd{Outcome: shim.Lost, Message: "the connection broke"})
	p := w.awaitContainer("web", "was restarted", func(c corev1.ContainerStatus) bool { return c.RestartCount == 1 && c.Ready })
	if e := of(p, "web").LastTerminationState.Terminated; e == nil || e.Reason != "ContainerStatusUnknown" {
		t.Errorf("the end %+v", e)
	}
	p = w.awaitAllRunning()
	if of(p, "vm").RestartCount != 1 || w.host.count("exec tk-uid-a-0 c-1-r1") != 0 {
		t.Errorf("the main container %+v, host %v", of(p, "vm"), w.host.history())
	}
}

// The postStart hook of a container holds up the next one.
func TestContainersBeginInTheirOrder(t *testing.T) {
	p := two(corev1.RestartPolicyNever)
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}
	w := newWorld(t, p)
	w.frozen.Store(true)
	w.startAgent()
	w.awaitCommand("main")
	w.awaitPod("a", "says what it waits for", func(p *corev1.Pod) bool {
		s := of(p, "vm").State.Waiting
		return s != nil && s.Message == "its postStart hook runs"
	})
	if w.host.given("c-1") != nil || w.pod("a").Status.Phase != corev1.PodPending {
		t.Errorf("phase %s, host %v", w.pod("a").Status.Phase, w.host.history())
	}
	w.clock.Step(5 * time.Second)
	w.frozen.Store(false)
	w.awaitAllRunning()
}

// A changed image stops all containers, whatever their policy, and starts them again.
func TestAnotherImageRestartsAllContainers(t *testing.T) {
	w := newWorld(t, withLongGrace(two(corev1.RestartPolicyNever)))
	w.startAgent()
	w.awaitAllRunning()
	w.edit("a", func(p *corev1.Pod) {
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].Image = nextImage
		}
	})
	w.await("both run again", func() bool {
		return w.host.count("exec tk-uid-a-1 main") == 1 && w.host.count("exec tk-uid-a-1 c-1") == 1
	})
	p := w.awaitAllRunning()
	for _, name := range []string{"vm", "web"} {
		if s := of(p, name); s.RestartCount != 1 || s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 143 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// What the probes of one container find says nothing of another one, also to the next agent.
func TestProbesOfTwoContainers(t *testing.T) {
	p := two(corev1.RestartPolicyAlways)
	for i, command := range []string{"look", "peek"} {
		p.Spec.Containers[i].ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{command}}},
			PeriodSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1, TimeoutSeconds: 1,
		}
	}
	w := newWorld(t, p)
	w.host.execs.exits("look", 1)
	w.startAgent()
	ready := func(name string, is bool) *corev1.Pod {
		return w.awaitContainer(name, "is ready or not", func(c corev1.ContainerStatus) bool { return c.State.Running != nil && c.Ready == is })
	}
	ready("web", true)
	if p := ready("vm", false); p.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s", p.Status.Phase)
	}
	w.host.execs.exits("look", 0)
	w.awaitAllRunning()
	w.host.execs.exits("peek", 1)
	ready("vm", true)
	ready("web", false)
	w.stopAgent()
	w.frozen.Store(true)
	w.startAgent()
	w.await("the VM is adopted", func() bool { return slices.Contains(w.events.reasons("a"), "Adopted") })
	ready("vm", true)
	ready("web", false)
	w.frozen.Store(false)
}

// The logs of the run that goes on and of the one before it are kept.
func TestLogsOfOldRunsAreRemoved(t *testing.T) {
	w := newWorld(t, two(corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitAllRunning()
	dir := checkpoint.Store(filepath.Join(w.dir, "pods")).AttemptDir("uid-a", 0)
	for n, id := range []string{"c-1", "c-1-r1", "c-1-r2"} {
		for _, name := range []string{id + ".log", id + ".log.1", "message-" + id + ".log"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		w.host.exit(id, exited(1))
		w.awaitContainer("web", "was restarted", func(c corev1.ContainerStatus) bool {
			return c.RestartCount == int32(n)+1 && c.State.Running != nil
		})
	}
	w.await("the old logs are gone", func() bool {
		left, err := filepath.Glob(filepath.Join(dir, "*c-1*"))
		return err == nil && len(left) == 3
	})
}

// A hook that fails ends its own container, which is started again.
func TestAHookThatFailsKillsItsContainerAlone(t *testing.T) {
	p := withLongGrace(two(corev1.RestartPolicyAlways))
	p.Spec.Containers[1].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"greet"}}}}
	w := newWorld(t, p)
	w.host.guests.codes["poststart-c-1"] = 1 // that of the first run alone
	w.startAgent()
	p = w.awaitAllRunning()
	if e := of(p, "web").LastTerminationState.Terminated; e == nil || e.ExitCode != 143 || of(p, "vm").RestartCount != 0 || w.host.count("run") != 1 {
		t.Errorf("web %+v, main %+v", of(p, "web"), of(p, "vm"))
	}
}

// A container that has ended is not probed any more, though its guest goes on.
func TestWhatHasEndedIsNotProbed(t *testing.T) {
	p := two(corev1.RestartPolicyNever)
	p.Spec.Containers[1].LivenessProbe = startupProbe("check")
	w := newWorld(t, p)
	w.startAgent()
	w.awaitAllRunning()
	w.await("it is probed", func() bool { return w.host.execs.count("check") > 1 })
	w.host.exit("c-1", exited(0))
	w.awaitContainer("web", "has ended", hasEnded)
	before, at := w.host.execs.count("check"), w.clock.Now()
	w.await("time passes", func() bool { return w.clock.Since(at) > 10*time.Second })
	if n := w.host.execs.count("check"); n != before {
		t.Errorf("it was probed %d times more", n-before)
	}
}
