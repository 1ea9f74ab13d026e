package pod

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The clocks of the host and of the API server need not agree for a guest to get its
// grace, and no more.
func TestAWrongClockLeavesTheGraceAlone(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"the host is ahead":     40 * time.Second,
		"the host is far ahead": time.Hour,
		"the host is behind":    -time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, onMac("a", corev1.RestartPolicyNever))
			w.startAgent()
			w.awaitRunning("a")
			w.edit("a", func(p *corev1.Pod) { deleteAt(p, w.clock.Now().Add(-ahead)) })
			w.awaitGone("a")
			if g := w.host.graces; len(g) != 1 || g[0] < 20*time.Second || g[0] > 30*time.Second {
				t.Errorf("graces %v, the Pod has 30 s", g)
			}
		})
	}
}

func TestDyingSince(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct{ deleted, want time.Duration }{
		"just now":                 {0, 0},
		"before the agent came":    {-20 * time.Second, -20 * time.Second},
		"long before":              {-time.Hour, -time.Hour},
		"later, by a slower clock": {time.Hour, 0},
	} {
		p := onMac("a", corev1.RestartPolicyNever)
		deleteAt(p, now.Add(c.deleted))
		if got := dyingSince(p, now).Sub(now).Round(time.Millisecond); got != c.want {
			t.Errorf("%s: dying since %s, want %s", name, got, c.want)
		}
	}
	if at := dyingSince(onMac("a", corev1.RestartPolicyNever), now); !at.IsZero() {
		t.Errorf("a Pod that lives dies since %s", at)
	}
}

// What of the grace an agent before this one used up is used up.
func TestAnAgentsRestartBeginsNoNewGrace(t *testing.T) {
	w := newWorld(t, onMac("a", corev1.RestartPolicyNever))
	w.host.stopGate = make(chan struct{})
	w.frozen.Store(true)
	w.startAgent()
	w.awaitRunning("a")
	w.delete("a")
	w.await("the guest is asked to shut down", func() bool { return w.host.stops() == 1 })
	w.stopAgent()
	w.clock.Step(20 * time.Second)
	close(w.host.stopGate)
	w.startAgent()
	w.frozen.Store(false)
	w.awaitGone("a")
	w.host.mu.Lock()
	graces := slices.Clone(w.host.graces)
	w.host.mu.Unlock()
	if last := graces[len(graces)-1]; len(graces) != 2 || last > 10*time.Second || last < 5*time.Second {
		t.Errorf("graces %v, 10 s are left", graces)
	}
}
