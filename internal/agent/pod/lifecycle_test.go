package pod

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

func (w *world) edit(name string, edit func(p *corev1.Pod)) {
	w.t.Helper()
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	// The fake client reads, patches and writes an object under this lock.
	w.client.Lock()
	defer w.client.Unlock()
	o, err := w.client.Tracker().Get(pods, "ns", name)
	if err != nil {
		w.t.Fatal(err)
	}
	p := o.(*corev1.Pod)
	edit(p)
	if err := w.client.Tracker().Update(pods, p, "ns"); err != nil {
		w.t.Fatal(err)
	}
}

func TestAVolumeThatOutgrowsItsLimitEvicts(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitRunning("a")
	w.inputs.mu.Lock()
	w.inputs.full = "emptyDir volume \"cache\" is too big"
	w.inputs.mu.Unlock()
	p := w.awaitPhase(corev1.PodFailed)
	if p.Status.Reason != "Evicted" || p.Status.Message != w.inputs.full {
		t.Errorf("reason %q, message %q", p.Status.Reason, p.Status.Message)
	}
	if w.events.count("a", "Evicted") != 1 {
		t.Errorf("events: %v", w.events.all())
	}
	if g := w.host.graces; len(g) != 1 || g[0] != state.OrphanGrace {
		t.Errorf("graces %v", g)
	}
}

func TestAGraceMayBeShortened(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.host.stopGate = make(chan struct{})
	w.frozen.Store(true)
	w.startAgent()
	w.awaitRunning("a")
	w.delete("a")
	w.await("the guest is asked to shut down", func() bool { return w.host.stops() == 1 })
	w.edit("a", func(p *corev1.Pod) {
		grace := int64(2)
		p.DeletionGracePeriodSeconds = &grace
	})
	w.await("it is asked again", func() bool { return w.host.stops() == 2 })
	w.frozen.Store(false)
	w.awaitGone("a")
	if n := w.host.stops(); n != 2 {
		t.Errorf("stopped %d times", n)
	}
}

// The Pod of a command that ended gets the grace its spec says for the shutdown.
// A Pod ends when its guest is down, which a guest that hangs must not put off for hours.
func TestTheGuestHasHalfAMinuteAfterTheCommand(t *testing.T) {
	for grace, want := range map[int64]time.Duration{17: 17 * time.Second, 3600: 30 * time.Second} {
		p := podtest.Job(corev1.RestartPolicyNever)
		p.Spec.TerminationGracePeriodSeconds = &grace
		w := newWorld(t, p)
		w.startAgent()
		w.awaitRunning("a")
		w.host.exit("main", exited(0))
		w.awaitPhase(corev1.PodSucceeded)
		if d := cmp.Diff([]time.Duration{want}, w.host.graces); d != "" {
			t.Errorf("of %d s, graces (-want +got):\n%s", grace, d)
		}
	}
}

// Also where the agent is restarted meanwhile.
func TestTheGuestHasHalfAMinuteAfterTheCommandAndItsAgent(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyNever)
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(3600))
	w := newWorld(t, p)
	w.host.stopGate = make(chan struct{})
	w.frozen.Store(true)
	w.startAgent()
	w.awaitRunning("a")
	w.host.exit("main", exited(0))
	w.await("the guest is asked to shut down", func() bool { return w.host.stops() == 1 })
	w.stopAgent()
	close(w.host.stopGate)
	w.startAgent()
	w.frozen.Store(false)
	w.awaitPhase(corev1.PodSucceeded)
	if d := cmp.Diff([]time.Duration{30 * time.Second, 30 * time.Second}, w.host.graces); d != "" {
		t.Errorf("graces (-want +got):\n%s", d)
	}
}

// Nor does it hold up the next attempt.
func TestTheGuestHasHalfAMinuteBeforeARestart(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyOnFailure)
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(3600))
	w := newWorld(t, p)
	w.startAgent()
	w.awaitRunning("a")
	w.host.exit("main", exited(1))
	w.awaitPod("a", "was restarted", func(p *corev1.Pod) bool { return mainOf(p).RestartCount == 1 && mainOf(p).Ready })
	if d := cmp.Diff([]time.Duration{30 * time.Second}, w.host.graces); d != "" {
		t.Errorf("graces (-want +got):\n%s", d)
	}
}

// The node lifecycle controller writes that Pods are not Ready when the lease of their Node is late, and never that they
// are again.
func TestAPodThatRunsIsShownReadyAgain(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.ResourceVersion = "5"
	w := newWorld(t, p)
	w.startAgent()
	ready := func(p *corev1.Pod) bool {
		return state.ConditionOf(p.Status.Conditions, corev1.PodReady) == corev1.ConditionTrue
	}
	w.awaitPod("a", "is Ready", ready)
	w.edit("a", func(p *corev1.Pod) {
		p.ResourceVersion = "6"
		for i := range p.Status.Conditions {
			if p.Status.Conditions[i].Type == corev1.PodReady {
				p.Status.Conditions[i].Status = corev1.ConditionFalse
			}
		}
	})
	w.awaitPod("a", "is Ready again", ready)
}

func TestReadinessGates(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyNever)
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/warm"}}
	w := newWorld(t, p)
	w.startAgent()
	got := w.awaitRunning("a")
	if s := state.ConditionOf(got.Status.Conditions, corev1.PodReady); s != corev1.ConditionFalse {
		t.Errorf("Ready is %s before its gate is open", s)
	}
	if s := state.ConditionOf(got.Status.Conditions, corev1.ContainersReady); s != corev1.ConditionTrue {
		t.Errorf("ContainersReady is %s", s)
	}
	w.edit("a", func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "example.com/warm", Status: corev1.ConditionTrue})
	})
	w.awaitPod("a", "is Ready", func(p *corev1.Pod) bool {
		return state.ConditionOf(p.Status.Conditions, corev1.PodReady) == corev1.ConditionTrue
	})
}

func TestTheGenerationIsObserved(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.edit("a", func(p *corev1.Pod) { p.Generation = 2 })
	w.awaitPod("a", "has its generation observed", func(p *corev1.Pod) bool { return p.Status.ObservedGeneration == 2 })
}

func TestAPodThatComesEndedIsLeftAlone(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Preempted"
	w := newWorld(t, p)
	w.host.machines["tk-uid-a-0"] = true
	s := w.startAgent()
	w.await("the Pod is known", func() bool { return s.has("uid-a") })
	w.await("its VM is gone", func() bool { return len(w.host.names()) == 0 })
	if got := w.pod("a"); got.Status.Reason != "Preempted" || w.phases.last("uid-a") != "" {
		t.Errorf("status %+v", got.Status)
	}
	if n := w.host.count("create"); n != 0 {
		t.Errorf("%d clones", n)
	}
}

func TestAPodThatIsEndedByOthersIsStopped(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	w.startAgent()
	w.awaitRunning("a")
	w.edit("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	w.await("its VM is gone", func() bool { return len(w.host.names()) == 0 })
	if n := w.host.count("run"); n != 1 {
		t.Errorf("run %d times", n)
	}
}

func TestVolumesAreRenewedWhileTheVMRuns(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.inputs.change()
	w.await("the volumes are renewed", func() bool { return w.inputs.refreshed() == 1 })
	w.edit("a", func(p *corev1.Pod) { p.Annotations = map[string]string{"builder": "foo"} })
	w.await("the volumes are renewed", func() bool { return w.inputs.refreshed() == 2 })
}

func TestVolumesAreRenewedWhenDue(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.inputs.due = w.clock.Now().Add(2 * time.Minute)
	w.startAgent()
	w.awaitRunning("a")
	w.frozen.Store(true)
	if n := w.inputs.refreshed(); n != 0 && w.clock.Now().Before(w.inputs.due) {
		t.Errorf("renewed %d times before it is due", n)
	}
	w.frozen.Store(false)
	w.await("the volumes are renewed", func() bool { return w.inputs.refreshed() == 1 })
}

// The object goes when nothing is left of the Pod, its volumes included.
func TestTheObjectGoesLast(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.inputs.tears = []error{errors.New("busy")}
	w.startAgent()
	w.awaitRunning("a")
	w.delete("a")
	w.awaitGone("a")
	if left := w.inputs.left(); left != "held 0, kept 0" {
		t.Errorf("the object is gone, and %s", left)
	}
}

func TestVolumesWithoutAPodAreSwept(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.inputs.kept[types.UID("gone")] = true
	w.startAgent()
	w.awaitRunning("a")
	w.await("they are swept", func() bool { return w.inputs.left() == "held 1, kept 1" })
}

func TestADeletedCommandIsKilled(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever, "one"))
	w.startAgent()
	w.awaitRunning("a")
	w.delete("a")
	w.awaitGone("a")
	if last := w.phases.last("uid-a"); last != corev1.PodFailed {
		t.Errorf("last phase %s", last)
	}
	if n := w.host.count("exec tk-uid-a-0 main"); n != 1 {
		t.Errorf("main ran %d times", n)
	}
}

func TestCommandsAcrossAgents(t *testing.T) {
	for _, c := range []struct {
		name   string
		away   func(w *world)
		after  func(w *world)
		code   int32
		reason string
	}{
		{"the agent is restarted", func(*world) {}, func(w *world) { w.host.exit("main", exited(5)) }, 5, "Error"},
		{"it ends meanwhile", func(w *world) { w.host.exit("main", exited(5)) }, nil, 5, "Error"},
		{"it ends, and the VM is killed", func(w *world) {
			w.host.exit("main", exited(5))
			w.host.vanish()
		}, nil, 5, "Error"},
		{"it ends, and the host is rebooted", func(w *world) {
			w.host.exit("main", exited(5))
			w.host.vanish()
			w.boot = "boot-2"
		}, nil, 5, "Error"},
		{"the shim is killed", func(w *world) { w.host.orphan() }, nil, 137, "ContainerStatusUnknown"},
		{"shim and VM are killed", func(w *world) { w.host.vanish() }, nil, 137, "ContainerStatusUnknown"},
		{"the guest crashes", func(w *world) {
			w.host.end("tk-uid-a-0", vm.RunEnd{Tail: "due to error"}, "end")
		}, nil, 1, "Error"},
		{"the guest shuts down", func(w *world) {
			w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
		}, nil, 137, "Error"},
		{"the host is rebooted", func(w *world) {
			w.host.vanish()
			w.boot = "boot-2"
		}, nil, 137, "ContainerStatusUnknown"},
	} {
		for _, live := range []bool{false, true} {
			name := c.name
			if live {
				name += ", seen"
			}
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
				w.startAgent()
				w.awaitRunning("a")
				boot := w.boot
				if !live {
					w.stopAgent()
				}
				c.away(w)
				if live && w.boot != boot {
					t.Skip("no agent outlives its host")
				}
				if !live {
					w.startAgent()
				}
				if c.after != nil {
					c.after(w)
				}
				e := w.awaitPhase(corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated
				if e == nil || e.ExitCode != c.code || e.Reason != c.reason {
					t.Errorf("terminated: %+v", e)
				}
				w.await("the VM is gone", func() bool { return len(w.host.names()) == 0 })
				if n := w.host.count("exec"); n != 1 {
					t.Errorf("main ran %d times: %v", n, w.host.history())
				}
			})
		}
	}
}

// An agent that stops between two commands goes on where the one before was.
func TestInitContainersAcrossAgents(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever, "one", "two"))
	w.host.guests.hold["init-0"], w.host.guests.hold["init-1"] = true, true
	w.startAgent()
	w.awaitCommand("init-0")
	w.stopAgent()
	w.host.exit("init-0", exited(0))
	w.startAgent()
	w.awaitCommand("init-1")
	w.stopAgent()
	w.startAgent()
	w.host.exit("init-1", exited(0))
	p := w.awaitRunning("a")
	for _, s := range p.Status.InitContainerStatuses {
		if s.State.Terminated == nil || s.RestartCount != 0 {
			t.Errorf("init container: %+v", s)
		}
	}
	want := []string{
		"create tk-uid-a-0", "run tk-uid-a-0", "exec tk-uid-a-0 init-0", "exec tk-uid-a-0 init-1", "exec tk-uid-a-0 main",
	}
	if d := cmp.Diff(want, w.host.history()); d != "" {
		t.Errorf("host (-want +got):\n%s", d)
	}
}

// A checkpoint that is lost while main runs never runs it again.
func TestALostCheckpointRunsNothingTwice(t *testing.T) {
	w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.stopAgent()
	w.host.mu.Lock()
	clear(w.host.guests.commands)
	w.host.mu.Unlock()
	if err := checkpoint.Store(w.dir + "/pods").Remove("uid-a"); err != nil {
		t.Fatal(err)
	}
	w.startAgent()
	e := w.awaitPhase(corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated
	if e.Reason != "ContainerStatusUnknown" {
		t.Errorf("terminated: %+v", e)
	}
	if n := w.host.count("exec"); n != 1 {
		t.Errorf("main ran %d times", n)
	}
}

func (h *fakeHost) stops() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.graces)
}

// What changes between the making of volumes and the machine's start is not missed.
func TestAChangeWhileTheVMStartsIsNotMissed(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.host.starting = w.inputs.change
	w.startAgent()
	w.awaitRunning("a")
	w.await("the volumes are renewed", func() bool { return w.inputs.refreshed() == 1 })
}
