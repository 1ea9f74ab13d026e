package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	poll      = 250 * time.Millisecond
	lockProbe = 100 * time.Millisecond
)

// TimeoutError says what did not happen in time.
type TimeoutError struct {
	What string
	Wait time.Duration
}

func (e *TimeoutError) Error() string { return fmt.Sprintf("waited %s for %s", e.Wait, e.What) }

// Await polls until done, an error, or the timeout, which is a *TimeoutError.
func Await(
	ctx context.Context, clock macos.Clock, timeout time.Duration, what string, done func() (bool, error),
) error {
	deadline := clock.Now().Add(timeout)
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if !clock.Now().Before(deadline) {
			return &TimeoutError{What: what, Wait: timeout}
		}
		if err := clock.Sleep(ctx, poll); err != nil {
			return err
		}
	}
}

// Lock waits for the lock at name, for so long. It is macos.ErrLocked that another
// process holds it still. Converge and hostd work side by side: what both change has
// a lock of its own.
func Lock(ctx context.Context, mac macos.Mac, name string, wait time.Duration) (io.Closer, error) {
	deadline := mac.Clock.Now().Add(wait)
	for {
		unlock, err := mac.Files.Lock(name)
		if !errors.Is(err, macos.ErrLocked) || !mac.Clock.Now().Before(deadline) {
			return unlock, err
		}
		if err := mac.Clock.Sleep(ctx, lockProbe); err != nil {
			return nil, err
		}
	}
}
