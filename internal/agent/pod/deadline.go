package pod

import (
	"context"
	"fmt"
	"time"
)

const (
	reasonDeadline = "DeadlineExceeded"
	reasonEvicted  = "Evicted"
)

// overError ends the life of a Pod that has failed for a reason of its own.
type overError struct {
	refusal
	// grace for the guest; negative: the Pod's own.
	grace time.Duration
}

func (e *overError) Error() string { return e.Message }

// keepDeadline ends the Pod's life once it was active for as long as it may be. The
// limit may be changed while it lives.
func (w *worker) keepDeadline(ctx context.Context) {
	for {
		p, changed := w.observe()
		if p.Spec.ActiveDeadlineSeconds == nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		seconds := *p.Spec.ActiveDeadlineSeconds
		due := w.frame.StartTime.Add(time.Duration(min(seconds, maxSeconds)) * time.Second)
		left := due.Sub(w.clock.Now())
		if left <= 0 {
			w.exceed(seconds)
			return
		}
		if _, err := w.pause(ctx, changed, left); err != nil {
			return
		}
	}
}

// maxSeconds keeps durations from overflowing: some hundred years.
const maxSeconds = int64(1) << 33

func (w *worker) exceed(seconds int64) {
	w.endLife(&overError{
		refusal: refusal{Reason: reasonDeadline, Message: fmt.Sprintf("the Pod was active for longer than its deadline of %d s", seconds)},
		grace:   -1,
	})
}
