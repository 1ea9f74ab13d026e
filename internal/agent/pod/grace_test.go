package pod

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
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
			w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
			w.startAgent()
			w.awaitRunning("a")
			w.frozen.Store(true) // a busy machine takes nothing from the grace
			w.edit("a", func(p *corev1.Pod) { podtest.DeleteAt(p, w.clock.Now().Add(-ahead)) })
			w.await("the guest is asked to shut down", func() bool { return w.host.stops() == 1 })
			w.frozen.Store(false)
			w.awaitGone("a")
			if g := w.host.graces; len(g) != 1 || g[0] < 20*time.Second || g[0] > 30*time.Second {
				t.Errorf("graces %v, the Pod has 30 s", g)
			}
		})
	}
}

// What of the grace an agent before this one used up is used up.
func TestAnAgentsRestartBeginsNoNewGrace(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
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
	w.await("the guest is asked again", func() bool { return w.host.stops() == 2 })
	w.frozen.Store(false)
	w.awaitGone("a")
	w.host.mu.Lock()
	graces := slices.Clone(w.host.graces)
	w.host.mu.Unlock()
	if last := graces[len(graces)-1]; len(graces) != 2 || last > 10*time.Second || last < 5*time.Second {
		t.Errorf("graces %v, 10 s are left", graces)
	}
}
