// Package vmruntime clones, awaits, stops and deletes the VMs of one Pod. A vm.Driver
// knows how that is done, a shim runs each VM and the commands in its guest.
package vmruntime

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// A VM that starts is looked at again after a part of the time it was waited for, until
	// its lock is held: a look costs a few calls of the system.
	lockPart    = 8
	minLockPoll = 5 * time.Millisecond
	maxLockPoll = 50 * time.Millisecond
	// lockTimeout is long, as a clone of another Pod may hold up the start.
	lockTimeout = 5 * time.Minute
	// refusalTimeout is how long macOS may take to refuse a VM that holds its lock, as it
	// does beyond its licence, where tart does not show that the VM was started.
	refusalTimeout = time.Second
	// retryPause is the pause after the driver failed.
	retryPause = time.Second
	// endingTimeout is how long after its guest agent a VM may end and still be what
	// ended the command.
	endingTimeout = 10 * time.Second
)

// Runtime is used by one goroutine.
type Runtime struct {
	Driver vm.Driver
	Shims  Shims
	Clock  clock.WithTicker
	Log    *slog.Logger

	// waited is the shim that is waited for.
	waited struct {
		dir  string
		gone <-chan struct{}
	}
}

// Dir is where the driver has the files of a VM. Any goroutine may ask.
func (r *Runtime) Dir(name string) string { return filepath.Dir(r.Driver.GuestSocket(name)) }

// Create clones an image. It replaces what is left of an earlier try under the name,
// which never ran.
func (r *Runtime) Create(ctx context.Context, name, ref string, shape vm.Shape) error {
	err := r.Driver.Create(ctx, name, ref, shape)
	if !errors.Is(err, vm.ErrExists) {
		return err
	}
	if err := r.Driver.Delete(ctx, name); err != nil {
		return err
	}
	return r.Driver.Create(ctx, name, ref, shape)
}

// AwaitStart waits until the VM runs; false when its command ended before.
func (r *Runtime) AwaitStart(ctx context.Context, name, dir string, gone <-chan struct{}) (bool, error) {
	since := r.Clock.Now()
	deadline := since.Add(lockTimeout)
	var locked time.Time
	for {
		m, err := r.Driver.Machine(ctx, name)
		if err != nil && !errors.Is(err, vm.ErrNotFound) {
			r.Log.Warn("looking at a VM that starts failed", "err", err)
		}
		if m.Running && locked.IsZero() {
			locked = r.Clock.Now()
		}
		if m.Powered || m.Running && r.Clock.Since(locked) >= refusalTimeout {
			return true, nil
		}
		if !m.Running && r.Clock.Now().After(deadline) {
			r.Log.Warn("the VM took no lock in time, ending it", "timeout", lockTimeout)
			if err := r.Shims.Kill(dir); err != nil {
				r.Log.Warn("ending the VM's process failed", "err", err)
			}
			deadline = r.Clock.Now().Add(lockTimeout)
		}
		pause := min(max(r.Clock.Since(since)/lockPart, minLockPoll), maxLockPoll)
		if over, err := wait.Or(ctx, r.Clock, gone, pause); over || err != nil {
			return false, err
		}
	}
}

// AwaitExit waits for the shim to go, and then for the VM, as the shim may have been
// killed without it. A VM that exited has exited, also where ctx ended at the same
// time.
func (r *Runtime) AwaitExit(ctx context.Context, name string, gone <-chan struct{}) error {
	select {
	case <-gone:
	case <-ctx.Done():
		select {
		case <-gone:
		default:
			return context.Cause(ctx)
		}
	}
	for {
		err := r.Driver.Wait(ctx, name)
		if err == nil || errors.Is(err, vm.ErrNotFound) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.Log.Warn("waiting for a VM to end failed, trying again", "machine", name, "err", err)
		if err := wait.For(ctx, r.Clock, retryPause); err != nil {
			return err
		}
	}
}

// Exited reports that a VM that ran runs no more.
func (r *Runtime) Exited(ctx context.Context, name string) bool {
	m, err := r.Driver.Machine(ctx, name)
	return errors.Is(err, vm.ErrNotFound) || err == nil && !m.Running
}

// Exits reports that a VM whose command was cut off is ending, too: a guest that goes
// down ends its agent first.
func (r *Runtime) Exits(ctx context.Context, name, dir string) (bool, error) {
	if alive, err := r.Shims.Alive(dir); err == nil && alive {
		return wait.Or(ctx, r.Clock, r.ShimGone(dir), endingTimeout)
	}
	return r.Exited(ctx, name), nil
}

// ShimGone is closed once no shim runs for the attempt in dir. To wait for a shim
// takes a thread for as long as it lives, so that there is one wait for each.
func (r *Runtime) ShimGone(dir string) <-chan struct{} {
	if r.waited.dir == dir && r.waited.gone != nil {
		select {
		case <-r.waited.gone:
		default:
			return r.waited.gone
		}
	}
	r.waited.dir, r.waited.gone = dir, r.Shims.Gone(dir)
	return r.waited.gone
}

// Evidence reads what an attempt of the Pod has left in dir.
func (r *Runtime) Evidence(p *corev1.Pod, dir string) state.ExitEvidence {
	var e state.ExitEvidence
	begun, ended, err := r.Shims.Command(dir, state.SetupID)
	ids := state.CommandIDs(p, begun || ended != nil || err != nil)
	if e.Progress, err = state.ProgressOf(ids, func(id string) (bool, *shim.CommandEnd, error) { return r.Shims.Command(dir, id) }); err != nil {
		r.Log.Warn("the record of a command cannot be read", "err", err)
	}
	if e.Exit, err = r.Shims.Exit(dir); err != nil {
		r.Log.Warn("the exit record cannot be read", "err", err)
	}
	if e.Exit != nil {
		e.Outcome = r.Driver.Classify(vm.RunEnd{Code: e.Exit.Code, Signal: e.Exit.Signal, Tail: e.Exit.Tail})
	}
	return e
}
