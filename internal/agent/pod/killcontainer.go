package pod

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// containerFailedError ends a container for what it failed to do, and with it the attempt.
// The restart policy decides what comes then.
type containerFailedError struct {
	message string
	// grace is how long it has to end by itself.
	grace time.Duration
	// unhealthy: its startup or liveness probe has failed.
	unhealthy bool
}

func (e *containerFailedError) Error() string { return e.message }

// killContainer ends a container as a kubelet does, by its preStop hook, SIGTERM and the
// grace period, and then its VM. One that ended by itself meanwhile has its own exit.
func killContainer(ctx context.Context, w *worker, why *containerFailedError) (state.Exit, error) {
	if own := w.exits.read(exitUnrecorded); own.Reason != state.ReasonUnknown {
		return own, nil
	}
	name := w.progress.VMName()
	w.log.Info("container killed", "machine", name, "why", why.message)
	w.report.event(corev1.EventTypeNormal, "Killing", why.message)
	w.pod.graceOfFailure(&why.grace)
	defer w.pod.graceOfFailure(nil)
	if err := w.endCommand(ctx); err != nil {
		return state.Exit{}, err
	}
	err := w.runtime.Stop(ctx, name, w.progress.dir(), w.pod.grace(w.life))
	w.pod.countGrace(time.Time{})
	if err != nil {
		return state.Exit{}, err
	}
	e := w.exits.read(exitUnrecorded)
	e.Unhealthy = why.unhealthy
	return e, nil
}
