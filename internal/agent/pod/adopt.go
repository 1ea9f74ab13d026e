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
	if w.rec.Former != "" {
		return w.adoptFormer(ctx)
	}
	w.slots.Adopt(string(w.uid))
	if w.rec.Step != stepRunning {
		return w.watch(ctx)
	}
	w.showNow()
	w.event(corev1.EventTypeNormal, "Adopted", "The agent was restarted and goes on with VM "+w.rec.machine())
	return w.follow(ctx, w.shimGone(w.dir()), w.owedProofs())
}

// owedProofs makes the proofs of a start anew, where an earlier agent may have owed
// them. A machine that runs for longer is never stopped for want of one.
func (w *worker) owedProofs() proofs {
	if w.guard == nil || !w.rec.Started.IsZero() && w.clock.Since(w.rec.Started) >= startingFor {
		return func(context.Context, <-chan struct{}) error { return nil }
	}
	alive, err := w.runs.Alive(w.dir())
	orphan := err != nil || !alive
	return func(ctx context.Context, gone <-chan struct{}) error {
		if orphan {
			gone = nil // the shim was killed and the machine runs on
		}
		if err := w.armAgain(ctx, gone); err != nil {
			return err
		}
		return w.armWhileStarting(ctx, gone)
	}
}
