package pod

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// startingFor is how young a machine is whose proofs an agent before this one may
// still have owed.
const startingFor = time.Minute

// adopt goes on with a machine that an earlier agent started.
func (w *worker) adopt(ctx context.Context) (end, error) {
	w.slots.Adopt(string(w.uid))
	if w.rec.Step == stepRunning {
		w.showRunning()
		w.event(corev1.EventTypeNormal, "Adopted", "The agent was restarted and goes on with VM "+w.rec.machine())
		dir := w.journal.attemptDir(w.uid, w.rec.Attempt)
		if err := w.armAdopted(ctx, dir); err != nil {
			return w.stopUnfenced(ctx, err)
		}
		if err := w.awaitEnd(ctx, w.runs.Gone(dir)); err != nil {
			return end{}, err
		}
		return w.readEnd("the VM ended and its exit was not recorded")
	}
	return w.watch(ctx)
}

// armAdopted makes the proofs of a start anew, where an earlier agent may have owed
// them. A machine that runs for longer is never stopped for want of one.
func (w *worker) armAdopted(ctx context.Context, dir string) error {
	if w.guard == nil || !w.rec.Started.IsZero() && w.clock.Since(w.rec.Started) >= startingFor {
		return nil
	}
	var gone <-chan struct{} // stays open where the shim was killed and the machine runs on
	if alive, err := w.runs.Alive(dir); err == nil && alive {
		gone = w.runs.Gone(dir)
	}
	if err := w.armAgain(ctx, gone); err != nil {
		return err
	}
	return w.armWhileStarting(ctx, gone)
}
