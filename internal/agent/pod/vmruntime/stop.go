package vmruntime

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// DeleteTries bound how long a stopped clone that cannot be deleted holds up its
	// Pod; the sweep goes on trying.
	DeleteTries = 5
	// shimTimeout is how long a shim may take to get from its start to the VM's lock, or
	// from the VM's end to its exit record, while it is being stopped.
	shimTimeout = 5 * time.Second
	// graceStep is by how much a grace must be shorter to count: a grace that never
	// changes is counted in whole seconds.
	graceStep = 500 * time.Millisecond
)

// Grace is how long a guest may take to shut down; changed is closed when that may
// have become shorter.
type Grace func() (left time.Duration, changed <-chan struct{})

// Remove stops a VM and deletes it. It returns once the VM runs no more; the error is
// that of ctx.
func (r *Runtime) Remove(ctx context.Context, name, dir string, grace Grace) (deleted bool, err error) {
	if err := r.Stop(ctx, name, dir, grace); err != nil {
		return false, err
	}
	for try := 1; ; try++ {
		err := r.Driver.Delete(ctx, name)
		running := errors.Is(err, vm.ErrRunning)
		switch {
		case err == nil:
			return true, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case try >= DeleteTries && !running:
			r.Log.Error("a stopped VM was left behind, the sweep will try again", "machine", name, "err", err)
			return false, nil
		}
		r.Log.Warn("deleting a VM failed, trying again", "machine", name, "err", err)
		err = wait.For(ctx, r.Clock, retryPause)
		if err == nil && running {
			// Its shim was killed before the VM that it had begun showed: nobody else stops it.
			err = r.Stop(ctx, name, dir, grace)
		}
		if err != nil {
			return false, err
		}
	}
}

// Stop ends a VM and its shim.
func (r *Runtime) Stop(ctx context.Context, name, dir string, grace Grace) error {
	begin := r.Clock.Now()
	for {
		done, err := r.stopOnce(ctx, name, dir, grace, r.Clock.Since(begin) > shimTimeout)
		if done {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			r.Log.Warn("stopping a VM failed, trying again", "machine", name, "err", err)
			err = wait.For(ctx, r.Clock, retryPause)
		} else {
			// The shim writes down the exit.
			_, err = wait.Or(ctx, r.Clock, r.ShimGone(dir), time.Second)
		}
		if err != nil {
			return err
		}
	}
}

// stopOnce reports whether neither VM nor shim is left.
func (r *Runtime) stopOnce(ctx context.Context, name, dir string, grace Grace, kill bool) (bool, error) {
	m, err := r.Driver.Machine(ctx, name)
	if err != nil && !errors.Is(err, vm.ErrNotFound) {
		return false, err
	}
	if m.Running {
		return false, r.stopVM(ctx, name, grace)
	}
	alive, err := r.Shims.Alive(dir)
	if err != nil || !alive {
		return err == nil, err
	}
	if kill {
		return false, r.Shims.Kill(dir)
	}
	return false, nil
}

// stopVM stops a VM within its grace. One that becomes shorter meanwhile counts at
// once.
func (r *Runtime) stopVM(ctx context.Context, name string, grace Grace) error {
	ctx, cancel := context.WithCancel(ctx)
	var stopping sync.WaitGroup
	defer stopping.Wait()
	defer cancel()
	ended := make(chan error, 1)
	var due time.Time
	for {
		left, changed := grace()
		if at := r.Clock.Now().Add(left); due.IsZero() || due.Sub(at) > graceStep {
			due = at
			stopping.Go(func() {
				err := r.Driver.Stop(ctx, name, left)
				select {
				case ended <- err:
				default:
				}
			})
		}
		select {
		case err := <-ended:
			return err
		case <-changed:
		}
	}
}
