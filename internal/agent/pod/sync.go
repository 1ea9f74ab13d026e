package pod

import (
	"context"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// syncPod takes a Pod from admission to the exit of its last VM, which it returns;
// nil when its life ends before, or it needs nothing.
func (w *worker) syncPod(ctx context.Context) *state.View {
	p := w.pod.current()
	if ctx.Err() != nil || state.HasEnded(p) {
		return nil
	}
	action, why, err := w.restore(ctx, p)
	if err != nil {
		return nil
	}
	if w.progress.Failed != nil {
		w.endLife(w.progress.failure())
		return nil
	}
	start := w.report.invariant.StartTime.Time
	w.background.Go(func() { enforceDeadline(ctx, w.pod, start, w.clock, w.endLife) })
	if w.isNew(action) {
		if refused := w.admitter.admit(ctx); refused != nil {
			return &state.View{Refused: refused}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	w.shared.inputs.Hold(w.pod.current())
	return w.runAttempts(ctx, action, why)
}

// act does what was decided, which ends an attempt.
func (w *worker) act(ctx context.Context, action state.Action, why string) (state.Exit, error) {
	switch action {
	case state.ActionReattach:
		return w.shimNeverBegan(w.reattach(ctx))
	case state.ActionReadExit, state.ActionLost:
		e := w.exits.read(why)
		// Without a checkpoint, nobody knows whether this is the attempt that ran.
		e.Unstarted = e.Unstarted && (!w.progress.reconstructed || !w.progress.ran)
		return e, nil
	case state.ActionEnded:
		return w.progress.ExitOrLost(), nil
	}
	return w.shimNeverBegan(w.attempt(ctx))
}

// shimNeverBegan is e, but for the exit of a shim that went before it wrote that it
// would begin: then nothing has run.
func (w *worker) shimNeverBegan(e state.Exit, err error) (state.Exit, error) {
	if err != nil || e.Reason != state.ReasonUnknown || w.progress.Step != state.StepStarting {
		return e, err
	}
	if started, err := w.runtime.Shims.Started(w.progress.dir()); err != nil || started {
		return e, nil
	}
	e.Unstarted, e.Reason = true, state.ReasonRunError
	e.Message = "the process that is to run the VM ended before it began; see whether the Mac's disk is full"
	return e, nil
}
