package pod

import (
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

func TestAStartIsReportedAfterTenSeconds(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	var told atomic.Int32
	w.started = func() { told.Add(1) }
	w.startAgent()
	w.await("a machine that settles", func() bool { return told.Load() == 1 })
	w.stopAgent()
	// One that an agent before this one started says as much.
	w.startAgent()
	w.await("an adopted machine that settles", func() bool { return told.Load() == 2 })
}

// A refused start holds the lock of its machine for a moment.
func TestAVMThatHeldItsLockForAMomentIsNotReportedStarted(t *testing.T) {
	w := newWorld(t, podtest.OnMac("a", corev1.RestartPolicyNever))
	var told atomic.Int32
	w.started = func() { told.Add(1) }
	w.guard(func(n int) error {
		w.frozen.Store(n >= 1)
		return nil
	})
	w.startAgent()
	w.awaitRunning("a")
	w.host.end("tk-uid-a-0", vm.RunEnd{Code: 1, Tail: "OSStatus -25308"}, "end")
	w.awaitWaiting(state.ReasonSession)
	if n := told.Load(); n != 0 {
		t.Errorf("told %d times of a machine that ran for no time", n)
	}
}
