package pod

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Guard proves the firewall around the guests.
type Guard interface {
	// Arm proves it now, and mends it first where that is needed. An error means that
	// no guest may start. It may say more of itself: PodReason is the reason of a Pod
	// that waits for it; Away is true when there was no answer at all; Proved is true
	// when the firewall holds, and something is missing that only a start needs.
	Arm(ctx context.Context) error
}

const (
	// reasonNotProved is the reason of a Pod whose machine may not run.
	reasonNotProved = "FirewallNotProved"
	// reasonRunError is a kubelet's.
	reasonRunError = "RunContainerError"
)

// startingProofs are when the firewall is proved after a machine started, counted
// from the one before. The guests' bridge comes up soon after the machine's lock is
// held, and with it the main ruleset may be replaced. A guest takes longer to boot.
func startingProofs() []time.Duration { return []time.Duration{2 * time.Second, 6 * time.Second} }

// notProvedError is the guard's no.
type notProvedError struct{ err error }

func (e *notProvedError) Error() string { return e.err.Error() }
func (e *notProvedError) Unwrap() error { return e.err }

// arm asks the guard once.
func (w *worker) arm(ctx context.Context) error {
	if w.guard == nil {
		return nil
	}
	if err := w.guard.Arm(ctx); err != nil {
		return &notProvedError{err}
	}
	return nil
}

// armWhileStarting asks the guard again and again while the guest boots.
func (w *worker) armWhileStarting(ctx context.Context, gone <-chan struct{}) error {
	if w.guard == nil {
		return nil
	}
	for _, delay := range startingProofs() {
		if over, err := w.pause(ctx, gone, delay); over || err != nil {
			return err
		}
		if err := w.armAgain(ctx, gone); err != nil {
			return err
		}
	}
	return nil
}

// pause waits, unless the machine goes before.
func (w *worker) pause(ctx context.Context, gone <-chan struct{}, d time.Duration) (over bool, err error) {
	t := w.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return false, nil
	case <-gone:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// stopUnfenced stops a machine for which the guard said no. One that was not shown
// to run yet counts as never started; what ended by itself meanwhile has its own end.
func (w *worker) stopUnfenced(ctx context.Context, why error) (end, error) {
	var no *notProvedError
	if ctx.Err() != nil || !errors.As(why, &no) {
		return end{}, why
	}
	own, over := w.readEnd(whyUnrecorded), w.machineOver(ctx)
	if !over {
		w.log.Error("VM stopped, as the firewall around it is not proved", "machine", w.rec.machine(), "err", why)
		w.event(corev1.EventTypeWarning, reasonNotProved, fmt.Sprintf("Stopping VM %s: %v", w.rec.machine(), why))
	}
	if err := w.stop(ctx, w.rec.machine(), w.dir(), atOnce); err != nil {
		return end{}, err
	}
	switch {
	case over:
		return w.readEnd(whyUnrecorded), nil
	case own.Reason != reasonUnknown:
		return own, nil
	}
	return end{
		Code: codeKilled, Reason: reasonNotProved, Message: why.Error(), Unstarted: w.rec.Step != stepRunning,
		Machine: w.rec.machine(), Started: w.rec.Started, Finished: w.clock.Now(),
	}, nil
}

// machineOver reports whether the machine of this attempt, which ran, runs no more.
func (w *worker) machineOver(ctx context.Context) bool {
	m, err := w.driver.Machine(ctx, w.rec.machine())
	return errors.Is(err, vm.ErrNotFound) || err == nil && !m.Running
}

// startReason is the waiting reason of a machine that was not started: the guard's
// own word where it has one.
func startReason(err error) string {
	var no *notProvedError
	if !errors.As(err, &no) {
		return reasonRunError
	}
	var own interface{ PodReason() string }
	if errors.As(no.err, &own) {
		return own.PodReason()
	}
	return reasonNotProved
}

// eventOf is the reason of the event that goes with a waiting reason: what a
// kubelet's would be, or the guard's.
func eventOf(err error) string {
	var no *notProvedError
	if errors.As(err, &no) {
		return startReason(err)
	}
	return "Failed"
}
