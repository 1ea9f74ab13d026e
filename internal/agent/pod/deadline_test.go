package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// late is a deadline in seconds that is over only when a test has its clock there. The clock
// runs 500 times as fast as the machine's, on which a VM may be long in coming up.
const late = 1_000_000

func withDeadline(p *corev1.Pod, seconds int64) *corev1.Pod {
	p.Spec.ActiveDeadlineSeconds = &seconds
	return p
}

// overdue has the deadline of Pod a be over, also for who has looked at the clock and does
// not wait for it yet: that it is changed has him look again.
func (w *world) overdue() {
	w.t.Helper()
	w.clock.Step(late * time.Second)
	w.edit("a", func(*corev1.Pod) {})
}

func TestADeadlineFailsThePod(t *testing.T) {
	for name, p := range map[string]*corev1.Pod{
		"a command":              withDeadline(podtest.Job(corev1.RestartPolicyNever), late),
		"a VM that is restarted": withDeadline(podtest.OnMac("a", corev1.RestartPolicyAlways), late),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, p)
			w.startAgent()
			w.awaitRunning("a")
			w.overdue()
			got := w.awaitPhase(corev1.PodFailed)
			e := got.Status.ContainerStatuses[0].State.Terminated
			if got.Status.Reason != "DeadlineExceeded" || e == nil || e.ExitCode == 0 {
				t.Errorf("reason %q, terminated %+v", got.Status.Reason, e)
			}
			if m := "Pod was active on the node longer than the specified deadline"; got.Status.Message != m || !w.told("a DeadlineExceeded "+m) {
				t.Errorf("message %q, events %v", got.Status.Message, w.events.all())
			}
			w.await("the VM is gone", func() bool { return len(w.host.names()) == 0 })
			if n := w.host.count("run"); n != 1 {
				t.Errorf("the VM was run %d times", n)
			}
			if took := w.clock.Since(got.Status.StartTime.Time); took < late*time.Second {
				t.Errorf("failed after %s", took)
			}
		})
	}
}

// A Pod whose time is over is not ready any more, though its command runs for as long as its
// grace lets it.
func TestWhatIsEndedForADeadlineIsNotReady(t *testing.T) {
	p := withDeadline(podtest.Job(corev1.RestartPolicyNever), late)
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(36000))
	w := newWorld(t, p)
	w.host.guests.hold["main"], w.host.guests.stubborn = true, true
	w.startAgent()
	w.awaitRunning("a")
	w.overdue()
	w.awaitSignal()
	p = w.awaitPod("a", "is not ready", func(p *corev1.Pod) bool { return conditionOf(p, corev1.PodReady).Status == corev1.ConditionFalse })
	if c := conditionOf(p, corev1.PodReady); c.Reason != "PodFailed" || mainOf(p).State.Running == nil || p.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s, condition %+v, main %+v", p.Status.Phase, c, mainOf(p))
	}
	w.host.exit("main", exited(0))
}

func TestADeadlineOutlivesTheAgent(t *testing.T) {
	w := newWorld(t, withDeadline(podtest.Job(corev1.RestartPolicyNever), late))
	w.startAgent()
	w.awaitRunning("a")
	w.stopAgent()
	w.frozen.Store(true)
	w.clock.Step(late * time.Second)
	w.startAgent()
	w.frozen.Store(false)
	if p := w.awaitPhase(corev1.PodFailed); p.Status.Reason != "DeadlineExceeded" {
		t.Errorf("reason %q", p.Status.Reason)
	}
}

// An end that a deadline has brought about is one of the deadline also where the agent was restarted meanwhile.
func TestADeadlineIsNotForgottenWithTheAgent(t *testing.T) {
	for name, away := range map[string]func(w *world){
		"the command ended": func(w *world) { w.host.exit("main", exited(0)) },
		"the guest is down": func(w *world) {
			w.host.exit("main", exited(0))
			w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := withDeadline(podtest.Job(corev1.RestartPolicyNever), late)
			p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(longGrace))
			w := newWorld(t, p)
			w.host.guests.stubborn = true
			w.startAgent()
			w.awaitRunning("a")
			w.frozen.Store(true)
			w.overdue()
			w.awaitSignal()
			w.stopAgent()
			w.clock.Step(10 * time.Second)
			away(w)
			w.startAgent()
			w.frozen.Store(false)
			w.await("the Pod has ended", func() bool { return state.HasEnded(w.pod("a")) })
			if s := w.pod("a").Status; s.Phase != corev1.PodFailed || s.Reason != "DeadlineExceeded" {
				t.Errorf("phase %s, reason %q", s.Phase, s.Reason)
			}
		})
	}
}

func TestADeadlineMayCome(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.startAgent()
	w.awaitRunning("a")
	w.edit("a", func(p *corev1.Pod) { withDeadline(p, 1) })
	if p := w.awaitPhase(corev1.PodFailed); p.Status.Reason != "DeadlineExceeded" {
		t.Errorf("reason %q", p.Status.Reason)
	}
}
