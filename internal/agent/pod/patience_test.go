package pod

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// awayError is that of a guard that does not answer.
type awayError struct{}

func (awayError) Error() string { return "connection refused" }
func (awayError) Away() bool    { return true }

func TestPatience(t *testing.T) {
	begin := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	away := &notProvedError{fmt.Errorf("asking: %w", awayError{})}
	no := &notProvedError{errOpen}
	for name, c := range map[string]struct {
		answers []error // one every two seconds
		ends    int     // the answer it ends with, counted from 0; -1: none
	}{
		"no":                {slices.Repeat([]error{no}, 9), guardTries - 1},
		"away":              {slices.Repeat([]error{away}, 40), 30},
		"away, then no":     {append(slices.Repeat([]error{away}, 20), slices.Repeat([]error{no}, 9)...), 20 + guardTries - 1},
		"away for a launch": {slices.Repeat([]error{away}, 30), -1},
		"no for a moment":   {slices.Repeat([]error{no}, guardTries-1), -1},
	} {
		p, got := patience{since: begin}, -1
		for i, err := range c.answers {
			if p.ends(err, begin.Add(time.Duration(i)*guardPause)) {
				got = i
				break
			}
		}
		if got != c.ends {
			t.Errorf("%s: ended with answer %d, want %d", name, got, c.ends)
		}
	}
}

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
	w := newWorld(t, onMac("a", corev1.RestartPolicyNever))
	const away = 2 * guardTries // longer than the patience with a no
	g := w.awayGuard(away)
	w.startAgent()
	w.awaitRunning("a")
	w.await("all proofs", func() bool { return len(g.questions()) == 4+away })
	if n := w.host.count("stop"); n != 0 {
		t.Errorf("stopped %d times", n)
	}
}

func TestAGuardThatStaysAwayStopsTheGuest(t *testing.T) {
	w := newWorld(t, onMac("a", corev1.RestartPolicyNever))
	w.awayGuard(1 << 20)
	w.startAgent()
	w.await("the guest is stopped", func() bool { return w.host.count("stop") > 0 })
	w.awaitWaiting(reasonNotProved)
}

func TestNoGuestStartsWhileTheGuardIsAway(t *testing.T) {
	w := newWorld(t, onMac("a", corev1.RestartPolicyNever))
	g := w.guard(func(int) error { return awayError{} })
	w.startAgent()
	w.awaitWaiting(reasonNotProved)
	w.await("more tries", func() bool { return len(g.questions()) > 4 })
	if n := w.host.count("run"); n != 0 {
		t.Errorf("%d machines were started", n)
	}
}
