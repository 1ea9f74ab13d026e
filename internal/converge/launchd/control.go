package launchd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const (
	// leaveTimeout is how long a label may take to go after bootout: what launchd
	// gives the process, and the settling seen in the field (3-5 s), thrice.
	leaveTimeout = exitTimeOut*time.Second + 15*time.Second
	// closeTimeout is how long a job without a process may take to go.
	closeTimeout = 20 * time.Second
	// bootstrapTimeout: a label that is gone may still be refused for a while.
	bootstrapTimeout = 20 * time.Second
	// spawnTimeout: a job that runs at load has a process well within this.
	spawnTimeout = 2 * time.Second
)

// Job is a launchd job in the system domain. Name is for people, within a sentence, and
// Plist the file that defines the job.
type Job struct{ Name, Label, Plist string }

// Control loads, unloads and restarts jobs.
type Control struct{ Mac macos.Mac }

// Print says what launchd knows of the job, and whether it is loaded.
func (c Control) Print(ctx context.Context, label string) (macos.Job, bool, error) {
	printed, err := c.Mac.Launchd.Print(ctx, label)
	if isAbsent(err) {
		return macos.Job{}, false, nil
	}
	return printed, err == nil, err
}

// Unload boots the job out and waits until launchd has forgotten the label, which
// it does in its own time.
func (c Control) Unload(ctx context.Context, j Job) error {
	err := c.Mac.Launchd.Bootout(ctx, j.Label)
	if err != nil && !isAbsent(err) {
		// It may be leaving already; whether it goes is what counts.
		var refused *macos.LaunchdError
		if !errors.As(err, &refused) {
			return err
		}
	}
	return step.Await(ctx, c.Mac.Clock, leaveTimeout, "launchd to forget "+j.Name, func() (bool, error) {
		_, loaded, err := c.Print(ctx, j.Label)
		return err == nil && !loaded, err
	})
}

func isAbsent(err error) bool {
	var refused *macos.LaunchdError
	return errors.As(err, &refused) && refused.Absent()
}

// Load has launchd take the job and start it.
func (c Control) Load(ctx context.Context, j Job) error {
	// A label that somebody disabled stays off across reboots until this.
	if err := c.Mac.Launchd.Enable(ctx, j.Label); err != nil {
		return err
	}
	if err := c.bootstrap(ctx, j); err != nil {
		return c.disabledOr(ctx, j, err)
	}
	err := step.Await(ctx, c.Mac.Clock, spawnTimeout, "launchd to start "+j.Name, func() (bool, error) {
		printed, _, err := c.Print(ctx, j.Label)
		return printed.PID > 0, err
	})
	if _, ok := errors.AsType[*step.TimeoutError](err); ok {
		return c.Mac.Launchd.Kickstart(ctx, j.Label, false)
	}
	return err
}

// disabledOr says that the job is disabled, when that is why err happened.
func (c Control) disabledOr(ctx context.Context, j Job, err error) error {
	off, failed := c.Mac.Launchd.Disabled(ctx, j.Label)
	if failed != nil || !off {
		return err
	}
	return step.Fail(document.Human, "%s is disabled in launchd's overrides, and enabling it did not take: "+
		"run `launchctl enable system/%s` as root: %w", j.Name, j.Label, err)
}

func (c Control) bootstrap(ctx context.Context, j Job) error {
	var last error
	err := step.Await(ctx, c.Mac.Clock, bootstrapTimeout, "launchd to take "+j.Name, func() (bool, error) {
		last = c.Mac.Launchd.Bootstrap(ctx, j.Plist)
		var refused *macos.LaunchdError
		if errors.As(last, &refused) && refused.Busy() {
			return false, nil
		}
		return last == nil, last
	})
	if late, ok := errors.AsType[*step.TimeoutError](err); ok {
		return fmt.Errorf("%w: %w", late, last)
	}
	return err
}

// Reopen has launchd close the port at which it listens for a job of macOS' own, with
// the connections that wait there, and open it anew. A kickstart touches no port.
func (c Control) Reopen(ctx context.Context, j Job) error {
	if err := c.requireEnabled(ctx, j); err != nil {
		return err
	}
	// It is on. Where only a default says so, launchd would not load it again.
	if err := c.Mac.Launchd.Enable(ctx, j.Label); err != nil {
		return err
	}
	// From here on the port is shut until the job is loaded, whoever waits for this.
	ctx = context.WithoutCancel(ctx)
	err := c.Mac.Launchd.Bootout(ctx, j.Label)
	if refused, ok := errors.AsType[*macos.LaunchdError](err); ok && (refused.Absent() || refused.Busy()) {
		err = nil
	}
	if err != nil {
		return err
	}
	// Whether it goes or not, it is loaded again.
	_ = step.Await(ctx, c.Mac.Clock, closeTimeout, "launchd to forget "+j.Name, func() (bool, error) {
		_, loaded, err := c.Print(ctx, j.Label)
		return err == nil && !loaded, err
	})
	return c.load(ctx, j)
}

// Open loads a job of macOS' own that launchd listens for. Where a person turned it off,
// it stays off.
func (c Control) Open(ctx context.Context, j Job) error {
	if err := c.requireEnabled(ctx, j); err != nil {
		return err
	}
	return c.load(ctx, j)
}

func (c Control) requireEnabled(ctx context.Context, j Job) error {
	off, err := c.Mac.Launchd.Disabled(ctx, j.Label)
	if off {
		return fmt.Errorf("%s is turned off in launchd's overrides, and stays so: to turn it on, run `launchctl enable system/%s` as root", j.Name, j.Label)
	}
	return err
}

// load loads a job that needs no process, and looks.
func (c Control) load(ctx context.Context, j Job) error {
	if err := c.bootstrap(ctx, j); err != nil {
		return err
	}
	_, loaded, err := c.Print(ctx, j.Label)
	if err == nil && !loaded {
		err = fmt.Errorf("launchd took %s and does not know it", j.Name)
	}
	return err
}

// restart ends the process of a job and starts another.
func (c Control) restart(ctx context.Context, j Job) error {
	err := c.Mac.Launchd.Kickstart(ctx, j.Label, true)
	if isAbsent(err) {
		return c.Load(ctx, j)
	}
	return err
}
