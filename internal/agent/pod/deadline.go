package pod

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

const reasonDeadline = "DeadlineExceeded"

// podFailedError ends the life of a Pod that has failed for a reason of its own.
type podFailedError struct {
	state.Failure
	// grace for the guest; negative: the Pod's own.
	grace time.Duration
	// disrupted: the Pod could have run, had it not been for this Mac.
	disrupted bool
}

func (e *podFailedError) Error() string { return e.Message }

// failure is why the life of a Pod was ended, or what an agent before this one has noted of
// that; nil: it has not failed.
func (g *progress) failure() *podFailedError {
	var failed *podFailedError
	if errors.As(context.Cause(g.life), &failed) {
		return failed
	}
	if f := g.Failed; f != nil {
		return &podFailedError{Failure: state.Failure{Reason: f.Reason, Message: f.Message}, grace: f.Grace, disrupted: f.Disrupted}
	}
	return nil
}

// keepFailure writes down why a Pod fails before anything of it ends: the next agent finds a VM
// that is gone, and would run another.
func (g *progress) keepFailure() {
	failed := g.failure()
	if failed == nil || g.Step == "" || g.Failed != nil {
		return
	}
	g.change(func(r *state.Record) {
		r.Failed = &state.FailedPod{Reason: failed.Reason, Message: failed.Message, Grace: failed.grace, Disrupted: failed.disrupted}
	})
	g.save()
}

// deadlineMessage is a kubelet's.
const deadlineMessage = "Pod was active on the node longer than the specified deadline"

// errDeadline returns how a Pod fails whose deadline is over.
func errDeadline() *podFailedError {
	return &podFailedError{Failure: state.Failure{Reason: reasonDeadline, Message: deadlineMessage}, grace: -1}
}

// isOverdue reports an exit that came after the deadline. It is not the Pod's own, also where
// an agent before this one enforced the deadline.
func isOverdue(p *corev1.Pod, start time.Time, e state.Exit) bool {
	due, limited := state.ActiveDeadline(p, start)
	return limited && e.Finished.After(due)
}

// enforceDeadline ends the Pod's life once it was active for activeDeadlineSeconds,
// which may be changed while it lives.
func enforceDeadline(ctx context.Context, pod *object, start time.Time, c clock.Clock, endLife context.CancelCauseFunc) {
	for {
		p, changed := pod.observe()
		due, limited := state.ActiveDeadline(p, start)
		if !limited {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		left := due.Sub(c.Now())
		if left <= 0 {
			endLife(errDeadline())
			return
		}
		if _, err := wait.Or(ctx, c, changed, left); err != nil {
			return
		}
	}
}
