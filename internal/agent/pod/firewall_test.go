package pod

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// fakeGuard says no as often as it is told to, and keeps what it was asked.
type fakeGuard struct {
	host *fakeHost

	mu sync.Mutex
	// say answers the n-th question, counted from 0; nil says yes.
	say   func(n int) error
	asked []string // "before" or "while" a machine runs
}

func (g *fakeGuard) Arm(context.Context) error {
	machines, _ := g.host.Machines(context.Background())
	word := "before"
	if slices.ContainsFunc(machines, func(m vm.Machine) bool { return m.Running }) {
		word = "while"
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.asked)
	g.asked = append(g.asked, word)
	if g.say == nil {
		return nil
	}
	return g.say(n)
}

func (g *fakeGuard) questions() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked)
}

func (w *world) guard(say func(n int) error) *fakeGuard {
	g := &fakeGuard{host: w.host, say: say}
	w.guarded = g
	return g
}

var errOpen = errors.New("the main ruleset does not call com.apple/*")

func TestTheFirewallIsProvedAroundAStart(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyAlways))
	g := w.guard(nil)
	w.startAgent()
	w.awaitRunning("a")
	w.await("all proofs", func() bool { return len(g.questions()) == 4 })
	if d := cmp.Diff([]string{"before", "while", "while", "while"}, g.questions()); d != "" {
		t.Errorf("proofs (-want +got):\n%s", d)
	}
}

func TestNoGuestStartsBehindAnOpenFirewall(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	closed := make(chan struct{})
	w.guard(func(int) error {
		select {
		case <-closed:
			return nil
		default:
			return errOpen
		}
	})
	w.startAgent()
	p := w.awaitWaiting(state.ReasonNotProved)
	if m := p.Status.ContainerStatuses[0].State.Waiting.Message; m != errOpen.Error() {
		t.Errorf("message %q", m)
	}
	w.await("another try", func() bool {
		n := 0
		for _, r := range w.events.reasons("a") {
			if r == state.ReasonNotProved {
				n++
			}
		}
		return n > 1
	})
	if n := w.host.count("run"); n != 0 {
		t.Fatalf("%d machines were started", n)
	}
	// Nothing was lost by waiting: the Pod has not failed.
	close(closed)
	w.awaitRunning("a")
}

func TestAGuestIsStoppedWhenTheSecondProofFails(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	// The first question is before the start, the patience of the second proof comes
	// next; then all is well.
	g := w.guard(func(n int) error {
		if n >= 1 && n <= firewall.MaxRefusals {
			return errOpen
		}
		return nil
	})
	w.startAgent()
	w.awaitRunning("a")
	want := []string{
		"create tk-uid-a-0", "run tk-uid-a-0", "stop tk-uid-a-0", "delete tk-uid-a-0",
		"create tk-uid-a-1", "run tk-uid-a-1",
	}
	if d := cmp.Diff(want, w.host.history()); d != "" {
		t.Errorf("host (-want +got):\n%s", d)
	}
	if p := w.pod("a"); p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("a guest that nobody saw run counts as a restart")
	}
	if got := g.questions()[:2]; got[0] != "before" || got[1] != "while" {
		t.Errorf("proofs %v", got)
	}
}

func TestAGuestIsStoppedWhenItsBridgeOpensTheFirewall(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.guard(func(n int) error {
		if n >= 2 {
			return errOpen
		}
		return nil
	})
	w.startAgent()
	p := w.awaitPhase(corev1.PodFailed)
	s := p.Status.ContainerStatuses[0].State.Terminated
	if s == nil || s.Reason != state.ReasonNotProved || s.ExitCode != state.CodeKilled || s.Message != errOpen.Error() {
		t.Errorf("terminated %+v", s)
	}
	if n := w.host.count("stop"); n != 1 {
		t.Errorf("stopped %d times", n)
	}
}

func TestAGuardThatIsAwayForAMomentCostsNoGuest(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	g := w.guard(func(n int) error {
		if n == 1 || n == 2 {
			return errOpen
		}
		return nil
	})
	w.startAgent()
	w.awaitRunning("a")
	w.await("all proofs", func() bool { return len(g.questions()) == 6 })
	if n := w.host.count("stop"); n != 0 {
		t.Errorf("stopped %d times", n)
	}
}

func TestADeletionEndsTheWaitForAProof(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.guard(func(int) error { return errOpen })
	w.startAgent()
	w.awaitWaiting(state.ReasonNotProved)
	w.delete("a")
	w.awaitGone("a")
	if n := w.host.count("run"); n != 0 {
		t.Errorf("%d machines were started", n)
	}
}

type sessionless struct{}

func (sessionless) Error() string     { return "no session" }
func (sessionless) PodReason() string { return "NoConsoleSession" }
func (sessionless) Proved() bool      { return true }
