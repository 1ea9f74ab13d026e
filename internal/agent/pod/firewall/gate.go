// Package firewall is the gate that every start of a VM passes: the firewall around
// the guests is proved before the start, and again while the guest boots.
package firewall

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

// Guard proves the firewall around the guests.
type Guard interface {
	// Arm proves it now, and mends it first where that is needed. An error means that
	// no guest may start. It may say more of itself: PodReason is the reason of a Pod
	// that waits for it; Away is true when there was no answer at all; Proved is true
	// when the firewall holds, and something is missing that only a start needs.
	Arm(ctx context.Context) error
}

// pendingFor is how young a VM is whose proofs an agent before this one may not have
// made yet.
const pendingFor = time.Minute

// bootDelays are when the firewall is proved after a VM started, counted from the
// proof before. The guests' bridge comes up soon after the VM's lock is held, and
// with it the main ruleset may be replaced. A guest takes longer to boot.
func bootDelays() []time.Duration { return []time.Duration{2 * time.Second, 6 * time.Second} }

// NotProvedError is the guard's no.
type NotProvedError struct{ Err error }

func (e *NotProvedError) Error() string { return e.Err.Error() }
func (e *NotProvedError) Unwrap() error { return e.Err }

// Gate asks the guard; without one it is open.
type Gate struct {
	Guard Guard
	Clock clock.Clock
	Log   *slog.Logger
}

// Prove asks once, before a start.
func (g Gate) Prove(ctx context.Context) error {
	if g.Guard == nil {
		return nil
	}
	if err := g.Guard.Arm(ctx); err != nil {
		return &NotProvedError{err}
	}
	return nil
}

// ProveRunning asks about a VM that runs, and again for as long as the retry budget
// lasts. A VM that is gone meanwhile needs no proof.
func (g Gate) ProveRunning(ctx context.Context, gone <-chan struct{}) error {
	b := retryBudget{since: g.Clock.Now()}
	for asked := false; ; asked = true {
		err := g.Prove(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil, provedAnyway(err):
			return nil
		case b.exhausted(err, g.Clock.Now()):
			return err
		case !asked:
			g.Log.Warn("the firewall around a VM that runs is not proved, asking again", "err", err)
		}
		if over, err := wait.Or(ctx, g.Clock, gone, retryPause); over || err != nil {
			return err
		}
	}
}

// ProveBoot asks again and again while the guest boots.
func (g Gate) ProveBoot(ctx context.Context, gone <-chan struct{}) error {
	if g.Guard == nil {
		return nil
	}
	for _, delay := range bootDelays() {
		if over, err := wait.Or(ctx, g.Clock, gone, delay); over || err != nil {
			return err
		}
		if err := g.ProveRunning(ctx, gone); err != nil {
			return err
		}
	}
	return nil
}

// Pending reports that an agent before this one may not have made all proofs of a
// VM. One that runs for longer is never stopped for want of a proof.
func (g Gate) Pending(started time.Time) bool {
	return g.Guard != nil && (started.IsZero() || g.Clock.Since(started) < pendingFor)
}

// Reason is the waiting reason of a VM that was not started: the guard's own word
// where it has one.
func Reason(err error) string {
	var no *NotProvedError
	if !errors.As(err, &no) {
		return state.ReasonRunError
	}
	var own interface{ PodReason() string }
	if errors.As(no.Err, &own) {
		return own.PodReason()
	}
	return state.ReasonNotProved
}

// EventReason is the reason of the event that goes with a waiting reason: a
// kubelet's, or the guard's.
func EventReason(err error) string {
	var no *NotProvedError
	if errors.As(err, &no) {
		return Reason(err)
	}
	return "Failed"
}
