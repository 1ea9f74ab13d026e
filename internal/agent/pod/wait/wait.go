// Package wait has the pauses between the steps of a worker. All end with their
// context, and return the cause of its end.
package wait

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/utils/clock"
)

// For waits for d.
func For(ctx context.Context, c clock.Clock, d time.Duration) error {
	if _, err := Or(ctx, c, nil, d); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Or waits for d, or until done is closed: then it is over.
func Or(ctx context.Context, c clock.Clock, done <-chan struct{}, d time.Duration) (over bool, err error) {
	return Either(ctx, c, done, nil, d)
}

// Either waits for d, or until one of two is closed: then it is over.
func Either(ctx context.Context, c clock.Clock, one, other <-chan struct{}, d time.Duration) (over bool, err error) {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return false, nil
	case <-one:
		return true, nil
	case <-other:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// UntilDone tries until it works. It is for what must not be skipped.
func UntilDone(ctx context.Context, c clock.Clock, log *slog.Logger, doing string, try func() error) error {
	for delay := time.Second; ; delay = min(2*delay, 30*time.Second) {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		log.Warn(doing+" failed, trying again", "err", err)
		if err := For(ctx, c, delay); err != nil {
			return err
		}
	}
}
