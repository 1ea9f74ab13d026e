package converge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	poll = 250 * time.Millisecond
	// leaveTimeout is how long a label may take to go after bootout: what launchd
	// gives the process, and the settling seen in the field (3-5 s), thrice.
	leaveTimeout = exitTimeOut*time.Second + 15*time.Second
	// bootstrapTimeout: a label that is gone may still be refused for a while.
	bootstrapTimeout = 20 * time.Second
	// spawnTimeout: a job that runs at load has a process well within this.
	spawnTimeout = 2 * time.Second
)

// move gets the wanted process started, not yet proved.
func (t *target) move(ctx context.Context, j job, m move) error {
	switch m {
	case rest:
		return nil
	case reload:
		return t.reload(ctx, j)
	case load:
		return t.load(ctx, j)
	default:
		return t.kick(ctx, j)
	}
}

func (t *target) reload(ctx context.Context, j job) error {
	if err := t.writePlist(ctx, j); err != nil {
		return err
	}
	if err := t.unload(ctx, j); err != nil {
		return err
	}
	// The old definition is gone for good: a run that is cut off from here on needs
	// no second registration, only a restart.
	if err := write(ctx, t.Mac.Files, file{j.owed, []byte(owedRestart), rootFile}); err != nil {
		return err
	}
	return t.load(ctx, j)
}

// unload boots the job out and waits until launchd has forgotten the label, which
// it does in its own time.
func (t *target) unload(ctx context.Context, j job) error {
	err := t.Mac.Launchd.Bootout(ctx, j.label)
	if err != nil && !isAbsent(err) {
		// It may be leaving already; whether it goes is what counts.
		var refused *macos.LaunchdError
		if !errors.As(err, &refused) {
			return err
		}
	}
	return await(ctx, t.Mac.Clock, leaveTimeout, "launchd to forget "+j.name, func() (bool, error) {
		_, loaded, err := t.printJob(ctx, j)
		return err == nil && !loaded, err
	})
}

func isAbsent(err error) bool {
	var refused *macos.LaunchdError
	return errors.As(err, &refused) && refused.Absent()
}

func (t *target) load(ctx context.Context, j job) error {
	// A label that somebody disabled stays off across reboots until this.
	if err := t.Mac.Launchd.Enable(ctx, j.label); err != nil {
		return err
	}
	if err := t.bootstrap(ctx, j); err != nil {
		return t.disabledOr(ctx, j, err)
	}
	err := await(ctx, t.Mac.Clock, spawnTimeout, "launchd to start "+j.name, func() (bool, error) {
		printed, _, err := t.printJob(ctx, j)
		return printed.PID > 0, err
	})
	var late *timeoutError
	if errors.As(err, &late) {
		return t.Mac.Launchd.Kickstart(ctx, j.label, false)
	}
	return err
}

// disabledOr says that the job is disabled, when that is why err happened.
func (t *target) disabledOr(ctx context.Context, j job, err error) error {
	off, failed := t.Mac.Launchd.Disabled(ctx, j.label)
	if failed != nil || !off {
		return err
	}
	return fail(document.Human, "%s is disabled in launchd's overrides, and enabling it did not take: "+
		"run `launchctl enable system/%s` as root: %w", j.name, j.label, err)
}

func (t *target) bootstrap(ctx context.Context, j job) error {
	var last error
	err := await(ctx, t.Mac.Clock, bootstrapTimeout, "launchd to take "+j.name, func() (bool, error) {
		last = t.Mac.Launchd.Bootstrap(ctx, j.plist)
		var refused *macos.LaunchdError
		if errors.As(last, &refused) && refused.Busy() {
			return false, nil
		}
		return last == nil, last
	})
	var late *timeoutError
	if errors.As(err, &late) {
		return fmt.Errorf("%w: %w", late, last)
	}
	return err
}

func (t *target) kick(ctx context.Context, j job) error {
	err := t.Mac.Launchd.Kickstart(ctx, j.label, true)
	if isAbsent(err) {
		return t.load(ctx, j)
	}
	return err
}

// timeoutError says what did not happen in time.
type timeoutError struct {
	what string
	wait time.Duration
}

func (e *timeoutError) Error() string { return fmt.Sprintf("waited %s for %s", e.wait, e.what) }

// await polls until done, an error, or the end of patience.
func await(
	ctx context.Context, clock macos.Clock, patience time.Duration, what string, done func() (bool, error),
) error {
	deadline := clock.Now().Add(patience)
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if !clock.Now().Before(deadline) {
			return &timeoutError{what: what, wait: patience}
		}
		if err := clock.Sleep(ctx, poll); err != nil {
			return err
		}
	}
}
