package pod

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Inputs are what a Pod is given besides its image: environment and volumes, from
// objects of the cluster and from the host. Given is the one on a host.
type Inputs interface {
	// Hold begins to watch what the Pod refers to, Drop ends it.
	Hold(p *corev1.Pod)
	Drop(uid types.UID)
	// Changed is closed when something that the Pod refers to changes. Nil: never.
	Changed(uid types.UID) <-chan struct{}
	// PullSecrets returns those of the Pod that there are.
	PullSecrets(ctx context.Context, p *corev1.Pod) ([]corev1.Secret, error)
	// Prepare makes everything ready; called again it repairs what is missing. An
	// error may have a method EventReason.
	Prepare(ctx context.Context, p *corev1.Pod) (Prepared, error)
	// Refresh renews what changed, and says when it wants to be called again; zero:
	// when something changes.
	Refresh(ctx context.Context, p *corev1.Pod) (time.Time, error)
	// ExitReport is the exit code that a guest wrote down. ClearReport makes room for
	// the next attempt's.
	ExitReport(uid types.UID) (int32, bool)
	ClearReport(uid types.UID) error
	// Overfull names what has outgrown its limit of what the guest wrote on the host, in
	// one line for people; empty: nothing has.
	Overfull(p *corev1.Pod) string
	// TearDown removes everything of a Pod.
	TearDown(uid types.UID) error
	// UIDs of the Pods of which there is something.
	UIDs() ([]types.UID, error)
}

// Prepared is what one attempt is given.
type Prepared struct {
	Shares []vm.Share
	// Setup is a shell script that makes the volumes visible in the guest; empty: there
	// are none.
	Setup string
	// Commands of the containers that are commands, by the container's name.
	Commands map[string]vm.GuestCommand
	// RefreshAt is when Refresh is due; zero: when something changes.
	RefreshAt time.Time

	// changed is closed when something has changed since all this was made.
	changed <-chan struct{}
}

// prepare makes ready what the Pod is given, as often as it takes.
func (w *worker) prepare(ctx context.Context) error {
	for failures := 1; ; failures++ {
		changed := w.inputs.Changed(w.uid)
		err := w.prepareOnce(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.log.Warn("what the Pod is given is not there", "err", err)
		w.event(corev1.EventTypeWarning, eventReason(err), "Error: "+err.Error())
		w.waiting(reasonConfig, err.Error())
		if err := w.pauseUntil(ctx, changed, pullDelay(failures)); err != nil {
			return err
		}
	}
}

// prepareOnce is one try.
func (w *worker) prepareOnce(ctx context.Context) error {
	changed := w.inputs.Changed(w.uid)
	given, err := w.inputs.Prepare(ctx, w.current())
	if err != nil {
		return err
	}
	given.changed = changed
	w.given = &given
	return nil
}

// notPreparedError says that what was ready before is not when the machine is to
// start.
type notPreparedError struct{ err error }

func (e *notPreparedError) Error() string { return e.err.Error() }
func (e *notPreparedError) Unwrap() error { return e.err }

// whyNotStarted is the waiting reason of a machine that was not started, eventOfStart
// that of the event that goes with it.
func whyNotStarted(err error) string {
	var missing *notPreparedError
	if errors.As(err, &missing) {
		return reasonConfig
	}
	return startReason(err)
}

func eventOfStart(err error) string {
	var missing *notPreparedError
	if errors.As(err, &missing) {
		return eventReason(err)
	}
	return eventOf(err)
}

func eventReason(err error) string {
	var own interface{ EventReason() string }
	if errors.As(err, &own) {
		return own.EventReason()
	}
	return "Failed"
}

// pauseUntil waits, but not longer than until something changes. What changes at
// once is given a second.
func (w *worker) pauseUntil(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	if !wait(ctx, w.clock, time.Second) {
		return context.Cause(ctx)
	}
	_, err := w.pause(ctx, changed, d-time.Second)
	return err
}

const (
	// usageInterval is how often the sizes of volumes are looked at.
	usageInterval = 10 * time.Second
	// usageShare: looking takes one part in so many of the time, however many files
	// there are.
	usageShare = 20
)

// tend keeps the Pod's volumes up to date and within their limits, until ctx ends.
func (w *worker) tend(ctx context.Context, given *Prepared) {
	// An agent before this one may have owed a refresh: then it is due at once.
	due, changed, failures := w.clock.Now(), w.inputs.Changed(w.uid), 0
	if given != nil {
		due, changed = given.RefreshAt, given.changed
	}
	interval := usageInterval
	for {
		delay := interval
		if left := due.Sub(w.clock.Now()); !due.IsZero() && left < delay {
			delay = max(0, left)
		}
		news, err := w.pause(ctx, changed, delay)
		if err != nil {
			return
		}
		began := w.clock.Now()
		if full := w.inputs.Overfull(w.current()); full != "" {
			w.evict(full)
			return
		}
		interval = max(usageInterval, usageShare*w.clock.Since(began))
		if !news && (due.IsZero() || w.clock.Now().Before(due)) {
			continue
		}
		changed = w.inputs.Changed(w.uid)
		due, err = w.inputs.Refresh(ctx, w.current())
		if err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		failures++
		due = w.clock.Now().Add(pullDelay(failures))
		w.notRefreshed(failures, err)
	}
}

// notRefreshed tells of the first failure in a row.
func (w *worker) notRefreshed(failures int, err error) {
	w.log.Warn("volumes were not renewed, the guest goes on with what it has", "err", err)
	if failures == 1 {
		w.event(corev1.EventTypeWarning, eventReason(err), fmt.Sprintf("Volumes were not renewed, the guest goes on with what it has: %v", err))
	}
}

func (w *worker) evict(why string) {
	w.log.Warn("Pod evicted", "why", why)
	w.event(corev1.EventTypeWarning, reasonEvicted, why)
	w.endLife(&overError{refusal: refusal{Reason: reasonEvicted, Message: why}, grace: orphanGrace})
}
