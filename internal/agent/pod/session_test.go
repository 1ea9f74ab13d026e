package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

func TestASessionThatWentStopsNoGuest(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	g := w.guard(func(n int) error {
		if n >= 1 {
			return sessionless{}
		}
		return nil
	})
	w.startAgent()
	w.awaitRunning("a")
	w.await("all proofs", func() bool { return len(g.questions()) == 4 })
	if n := w.host.count("stop"); n != 0 {
		t.Errorf("stopped %d times", n)
	}
}

// A Pod that waits for a session has lost nothing, were it for a reboot long.
func TestAWaitForASessionOutlivesAReboot(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	w.guard(func(int) error { return sessionless{} })
	w.startAgent()
	w.awaitWaiting("NoConsoleSession")
	w.stopAgent()
	w.boot = "boot-2"
	w.guard(func(n int) error {
		if n < 2 {
			return sessionless{}
		}
		return nil
	})
	w.startAgent()
	if p := w.awaitRunning("a"); p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("the wait counts as a restart")
	}
	if n := w.host.count("run"); n != 1 {
		t.Errorf("%d machines were started", n)
	}
}
