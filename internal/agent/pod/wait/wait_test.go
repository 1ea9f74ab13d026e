package wait

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

var errLifeEnded = errors.New("the life ended")

// endingAfter is a context that ends after d, with errLifeEnded as its cause.
func endingAfter(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	stop := time.AfterFunc(d, func() { end(errLifeEnded) })
	t.Cleanup(func() { stop.Stop() })
	return ctx
}

func TestPausesEndWithWhatComesFirst(t *testing.T) {
	const never = time.Hour
	for name, c := range map[string]struct {
		life, done time.Duration
		over       bool
		err        error
		took       time.Duration
	}{
		"the pause":       {never, never, false, nil, time.Minute},
		"what is awaited": {never, time.Second, true, nil, time.Second},
		"the life":        {time.Second, never, false, errLifeEnded, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, done := time.Now(), make(chan struct{})
				stop := time.AfterFunc(c.done, func() { close(done) })
				defer stop.Stop()
				over, err := Or(endingAfter(t, c.life), clock.RealClock{}, done, time.Minute)
				if over != c.over || !errors.Is(err, c.err) || time.Since(begin) != c.took {
					t.Errorf("over %t, %v, after %s", over, err, time.Since(begin))
				}
			})
		})
	}
}

// A step that goes on after its pause must not begin in a life that is over.
func TestAPauseOfALifeThatIsOverFails(t *testing.T) {
	for name, d := range map[string]time.Duration{"a pause": time.Minute, "none": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				end(errLifeEnded)
				if err := For(ctx, clock.RealClock{}, d); !errors.Is(err, errLifeEnded) {
					t.Errorf("goes on: %v", err)
				}
			})
		})
	}
}

func TestUntilDoneTriesUntilItWorksOrLifeEnds(t *testing.T) {
	errDisk := errors.New("the disk is full")
	for name, c := range map[string]struct {
		fails int
		life  time.Duration
		err   error
		tries int
		took  time.Duration
	}{
		"works at once":         {0, time.Hour, nil, 1, 0},
		"pauses get longer":     {3, time.Hour, nil, 4, (1 + 2 + 4) * time.Second},
		"but not for ever":      {7, time.Hour, nil, 8, (1 + 2 + 4 + 8 + 16 + 30 + 30) * time.Second},
		"life ends in a pause":  {9, 5 * time.Second, errLifeEnded, 3, 5 * time.Second},
		"life is over, it ends": {9, 0, errLifeEnded, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, tries := time.Now(), 0
				ctx := endingAfter(t, c.life)
				synctest.Wait()
				err := UntilDone(ctx, clock.RealClock{}, slog.New(slog.DiscardHandler), "writing", func() error {
					if tries++; tries <= c.fails {
						return errDisk
					}
					return nil
				})
				if !errors.Is(err, c.err) || tries != c.tries || time.Since(begin) != c.took {
					t.Errorf("%v, %d tries in %s", err, tries, time.Since(begin))
				}
			})
		})
	}
}
