package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// awayError is that of a guard that does not answer.
type awayError struct{}

func (awayError) Error() string { return "connection refused" }
func (awayError) Away() bool    { return true }

// awayGuard says yes before the start, and does not answer the next questions.
func (w *world) awayGuard(questions int) *fakeGuard {
	return w.guard(func(n int) error {
		if n >= 1 && n <= questions {
			return awayError{}
		}
		return nil
	})
}

func TestAGuardThatIsRestartedCostsNoGuest(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	const away = 2 * firewall.MaxRefusals // longer than the patience with a no
	g := w.awayGuard(away)
	w.frozen.Store(true) // at the world's pace a busy machine uses up the guard's minute
	w.startAgent()
	w.await("all proofs", func() bool {
		w.clock.Step(20 * time.Millisecond)
		return len(g.questions()) == 4+away
	})
	w.awaitRunning("a")
	if n := w.host.count("stop"); n != 0 {
		t.Errorf("stopped %d times", n)
	}
}

func TestAGuardThatStaysAwayStopsTheGuest(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.awayGuard(1 << 20)
	w.startAgent()
	w.await("the guest is stopped", func() bool { return w.host.count("stop") > 0 })
	w.awaitWaiting(state.ReasonNotProved)
}

func TestNoGuestStartsWhileTheGuardIsAway(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	g := w.guard(func(int) error { return awayError{} })
	w.startAgent()
	w.awaitWaiting(state.ReasonNotProved)
	w.await("more tries", func() bool { return len(g.questions()) > 4 })
	if n := w.host.count("run"); n != 0 {
		t.Errorf("%d machines were started", n)
	}
}
