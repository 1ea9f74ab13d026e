package pod

import (
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// A Job's podFailurePolicy can ignore what its Mac did to a Pod, and nothing else.
func TestWhatTheMacEndsIsADisruption(t *testing.T) {
	for name, c := range map[string]struct {
		end       func(w *world)
		disrupted corev1.ConditionStatus
	}{
		"a reboot": {func(w *world) {
			w.stopAgent()
			w.host.vanish()
			w.boot = "boot-2"
			w.startAgent()
		}, corev1.ConditionTrue},
		"a reboot that tells processes to end first": {func(w *world) {
			w.stopAgent()
			w.host.end("tk-uid-a-0", vm.RunEnd{Code: -1, Signal: int(syscall.SIGTERM)}, "terminate")
			w.boot = "boot-2"
			w.startAgent()
		}, corev1.ConditionTrue},
		"a VM that somebody killed": {func(w *world) {
			w.stopAgent()
			w.host.end("tk-uid-a-0", vm.RunEnd{Code: -1, Signal: int(syscall.SIGTERM)}, "terminate")
			w.startAgent()
		}, corev1.ConditionUnknown},
		"a command that fails before a reboot": {func(w *world) {
			w.stopAgent()
			w.host.exit("main", exited(1))
			w.host.end("tk-uid-a-0", vm.RunEnd{Code: -1, Signal: int(syscall.SIGTERM)}, "terminate")
			w.boot = "boot-2"
			w.startAgent()
		}, corev1.ConditionUnknown},
		"an eviction": {func(w *world) {
			w.inputs.mu.Lock()
			w.inputs.full = "the volume is too full"
			w.inputs.mu.Unlock()
		}, corev1.ConditionTrue},
		"a command that fails": {func(w *world) { w.host.exit("main", exited(1)) }, corev1.ConditionUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, podtest.Job(corev1.RestartPolicyNever))
			w.startAgent()
			w.awaitRunning("a")
			c.end(w)
			p := w.awaitPhase(corev1.PodFailed)
			if got := state.ConditionOf(p.Status.Conditions, corev1.DisruptionTarget); got != c.disrupted {
				t.Errorf("DisruptionTarget is %s, want %s: %+v", got, c.disrupted, p.Status.Conditions)
			}
		})
	}
}
