package pod

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/admission"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

// runAttempts runs VM after VM until the restart policy says stop.
func (w *worker) runAttempts(ctx context.Context, action state.Action, why string) *state.View {
	for {
		e, err := w.act(ctx, action, why)
		if err != nil {
			return nil // deleted, over, or the agent stops
		}
		if isOverdue(w.pod.current(), w.report.invariant.StartTime.Time, e) {
			w.endLife(errDeadline())
			return nil
		}
		if action != state.ActionEnded {
			w.recordExit(e)
		}
		if e.Reason == state.ReasonLimited && action != state.ActionEnded && action != state.ActionReadExit {
			w.slot.refused(ctx)
		}
		p := w.pod.current()
		if !e.Unstarted && !e.Replaced && !state.ShouldRestart(p.Spec.RestartPolicy, e) {
			v := w.report.view(state.InitialReason(p), "")
			v.Final, v.Disrupted = &e, e.Disrupted()
			return v
		}
		if w.prepareRestart(ctx, e) != nil {
			return nil
		}
		action = state.ActionBegin
	}
}

// recordExit writes an exit down before anything is done about it.
func (w *worker) recordExit(e state.Exit) {
	w.probing.stop()
	w.log.Info("attempt ended", "machine", e.VM, "code", e.Code, "reason", e.Reason, "message", e.Message)
	p := w.pod.current()
	w.progress.Record = w.progress.CountCrash(e).Ended(p, e)
	w.progress.ran = w.progress.ran || !e.Unstarted
	w.progress.mainRan = w.progress.mainRan || !e.Unstarted && w.progress.MainsRan(p)
	w.progress.save()
	// An exit that the policy does not restart could not be taken back once it is shown.
	if !e.Unstarted && !e.Replaced && !e.RestartedAsSuccess(p.Spec.RestartPolicy) {
		w.report.showProgress()
	}
	if e.Reason == state.ReasonStart || e.Unstarted && (e.Reason == state.ReasonRunError || e.Reason == state.ReasonSession) {
		w.report.event(corev1.EventTypeWarning, "Failed", "Error: "+e.Message)
	}
}

// prepareRestart deletes the VM that exited and waits as long as the back-off asks.
func (w *worker) prepareRestart(ctx context.Context, e state.Exit) error {
	delay, reason := w.progress.Backoff(e)
	if e.Reason == state.ReasonLimited {
		e.Message = w.slot.limitMessage()
	}
	if delay > 0 {
		w.report.showBackOff(e, delay, reason)
	}
	if err := w.removeVM(ctx, w.progress.VMName(), w.progress.Attempt, w.pod.shutdownGrace(w.life)); err != nil {
		return err
	}
	if e.Reason == state.ReasonLimited {
		// A Pod that was refused asks again, after those that wait already.
		w.slot.release()
	}
	// The clock may have been set back since.
	if err := awaitBackOff(ctx, w.pod, w.progress, min(delay, delay-w.clock.Since(e.Finished))); err != nil {
		return err
	}
	w.progress.Record = w.progress.Next(w.pod.current())
	w.progress.publish()
	// Logs of attempts that did run may still be asked for.
	if err := w.progress.checkpoints.DropAttempts(w.progress.UID, w.progress.Kept()); err != nil {
		w.log.Warn("old attempts were left behind", "err", err)
	}
	return context.Cause(ctx)
}

// awaitBackOff waits for d, or until the Pod wants another image than the one that ended:
// the back-off is that one's.
func awaitBackOff(ctx context.Context, pod *object, progress *progress, d time.Duration) error {
	end := progress.clock.Now().Add(d)
	for {
		p, changed := pod.observe()
		if image := progress.Image; image != "" && wantsOtherImage(p, image) && len(admission.Unsupported(p)) == 0 {
			progress.Crashes, progress.Failures = 0, 0
			return nil
		}
		left := end.Sub(progress.clock.Now())
		if left <= 0 {
			return nil
		}
		if _, err := wait.Or(ctx, progress.clock, changed, left); err != nil {
			return err
		}
	}
}
