package pod

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// reattach goes on with a VM that an earlier agent started.
func (w *worker) reattach(ctx context.Context) (state.Exit, error) {
	if w.progress.LegacyVM != "" {
		return w.reattachLegacy(ctx)
	}
	w.shared.slots.Adopt(w.slot.name())
	if w.progress.Step != state.StepRunning {
		return w.watch(ctx)
	}
	w.report.showProgress()
	w.report.event(corev1.EventTypeNormal, "Adopted", "The agent was restarted and goes on with VM "+w.progress.VMName())
	return w.follow(ctx, w.runtime.ShimGone(w.progress.dir()), w.pendingProofs())
}

// pendingProofs makes the proofs of a start anew, where an earlier agent may not have
// made them all.
func (w *worker) pendingProofs() func(context.Context, <-chan struct{}) error {
	if !w.gate.Pending(w.progress.Started) {
		return func(context.Context, <-chan struct{}) error { return nil }
	}
	alive, err := w.runtime.Shims.Alive(w.progress.dir())
	orphan := err != nil || !alive
	return func(ctx context.Context, gone <-chan struct{}) error {
		if orphan {
			gone = nil // the shim was killed and the VM runs on
		}
		if err := w.gate.ProveRunning(ctx, gone); err != nil {
			return err
		}
		return w.gate.ProveBoot(ctx, gone)
	}
}
