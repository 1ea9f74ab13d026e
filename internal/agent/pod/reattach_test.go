package pod

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// restartedWhileStarting leaves a guest behind whose proofs are not all made. Time
// stands still from then on.
func restartedWhileStarting(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.guard(func(n int) error {
		w.frozen.Store(n >= 1)
		return nil
	})
	w.startAgent()
	w.awaitRunning("a")
	w.stopAgent()
	return w
}

// thawing is a guard at whose first question time goes on.
func (w *world) thawing(err error) *fakeGuard {
	return w.guard(func(int) error {
		w.frozen.Store(false)
		return err
	})
}

func TestTheProofsOfAStartOutliveTheAgent(t *testing.T) {
	for name, meanwhile := range map[string]func(*world){
		"the agent is restarted":   func(*world) {},
		"the shim is killed, too":  func(w *world) { w.host.orphan() },
		"after most of its minute": func(w *world) { w.clock.Step(time.Minute - time.Second) },
		"the clock was set back":   func(w *world) { w.clock.SetTime(w.clock.Now().Add(-time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := restartedWhileStarting(t)
			g := w.thawing(errOpen)
			meanwhile(w)
			w.startAgent()
			s := w.awaitPhase(corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated
			if s == nil || s.Reason != state.ReasonNotProved || s.Message != errOpen.Error() {
				t.Errorf("terminated %+v", s)
			}
			if n := len(g.questions()); n != firewall.MaxRefusals {
				t.Errorf("%d questions", n)
			}
		})
	}
}

func TestAReattachedGuestThatIsProvedGoesOn(t *testing.T) {
	w := restartedWhileStarting(t)
	g := w.thawing(nil)
	w.startAgent()
	w.await("all proofs", func() bool { return len(g.questions()) == 3 })
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	w.awaitPhase(corev1.PodSucceeded)
}

func TestAGuestThatRunsForLongIsNeverStoppedForAProof(t *testing.T) {
	w := restartedWhileStarting(t)
	g := w.guard(func(int) error { return errOpen })
	w.clock.Step(time.Minute)
	w.startAgent()
	w.await("the VM is adopted", func() bool { return slices.Contains(w.events.reasons("a"), "Adopted") })
	w.host.end("tk-uid-a-0", vm.RunEnd{}, "end")
	w.awaitPhase(corev1.PodSucceeded)
	if q := g.questions(); len(q) != 0 {
		t.Errorf("proofs %v", q)
	}
}
