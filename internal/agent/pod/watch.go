package pod

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// watch follows a machine whose shim was just started to its end.
func (w *worker) watch(ctx context.Context) (end, error) {
	gone := w.runs.Gone(w.journal.attemptDir(w.uid, w.rec.Attempt))
	running, err := w.awaitLock(ctx, gone)
	if err != nil {
		return end{}, err
	}
	if running {
		if err := w.armAgain(ctx, gone); err != nil {
			return w.stopUnfenced(ctx, err)
		}
		w.markRunning("Started", "Started VM "+w.rec.machine())
		if err := w.armWhileStarting(ctx, gone); err != nil {
			return w.stopUnfenced(ctx, err)
		}
		if err := w.awaitEnd(ctx, gone); err != nil {
			return end{}, err
		}
	}
	return w.readEnd("the VM ended and its exit was not recorded")
}

// awaitLock waits until the machine runs; false when its command ended before.
func (w *worker) awaitLock(ctx context.Context, gone <-chan struct{}) (bool, error) {
	deadline := w.clock.Now().Add(lockTimeout)
	for {
		m, err := w.driver.Machine(ctx, w.rec.machine())
		if err != nil && !errors.Is(err, vm.ErrNotFound) {
			w.log.Warn("looking at a VM that starts failed", "err", err)
		}
		if m.Running {
			return true, nil
		}
		if w.clock.Now().After(deadline) {
			w.log.Warn("the VM took no lock in time, ending it", "timeout", lockTimeout)
			if err := w.runs.Kill(w.journal.attemptDir(w.uid, w.rec.Attempt)); err != nil {
				w.log.Warn("ending the VM's process failed", "err", err)
			}
			deadline = w.clock.Now().Add(lockTimeout)
		}
		t := w.clock.NewTimer(lockPoll)
		select {
		case <-gone:
			t.Stop()
			return false, nil
		case <-ctx.Done():
			t.Stop()
			return false, context.Cause(ctx)
		case <-t.C():
		}
	}
}

func (w *worker) markRunning(reason, message string) {
	w.rec.Step, w.rec.Started = stepRunning, w.clock.Now()
	w.save()
	w.ran = true
	w.log.Info("VM runs", "machine", w.rec.machine())
	w.showRunning()
	w.event(corev1.EventTypeNormal, reason, message)
}

func (w *worker) showRunning() {
	started := w.rec.Started
	w.publish(view{
		Running:  &started,
		Last:     w.rec.Last,
		Restarts: w.rec.Restarts,
		Machine:  w.rec.machine(),
		ImageID:  w.rec.ImageID,
		Ran:      true,
	})
}

// awaitEnd waits for the shim to go, and then for the machine, should the shim
// have been killed over its head.
func (w *worker) awaitEnd(ctx context.Context, gone <-chan struct{}) error {
	select {
	case <-gone:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		m, err := w.driver.Machine(ctx, w.rec.machine())
		if errors.Is(err, vm.ErrNotFound) || (err == nil && !m.Running) {
			return nil
		}
		if !wait(ctx, w.clock, orphanPoll) {
			return context.Cause(ctx)
		}
	}
}

// readEnd takes the end from the exit record, or says that nobody knows.
func (w *worker) readEnd(otherwise string) (end, error) {
	exit, err := w.runs.Exit(w.journal.attemptDir(w.uid, w.rec.Attempt))
	if err != nil {
		w.log.Warn("the exit record cannot be read", "err", err)
	}
	if exit == nil {
		return lost(w.rec, otherwise, w.clock.Now()), nil
	}
	return endOf(w.rec, *exit, w.driver.Classify(vm.RunEnd{Code: exit.Code, Signal: exit.Signal, Tail: exit.Tail})), nil
}

// endOf puts an outcome in the words of a container status. Only a guest that shut
// itself down has succeeded.
func endOf(r entry, exit shim.Exit, o vm.Outcome) end {
	e := end{
		Code: codeCrashed, Reason: reasonError, Message: o.Message,
		Machine: r.machine(), Started: startedAt(r, exit), Finished: exit.Ended,
	}
	switch o.Kind {
	case vm.ShutDown:
		e.Code, e.Reason = 0, reasonCompleted
	case vm.Stopped:
		e.Code = codeKilled
	case vm.Killed:
		e.Code = int32(128 + exit.Signal)
	case vm.Limited:
		e.Limited = true
	case vm.NotStarted:
		e.Code = int32(max(1, exit.Code))
		e.Message = fmt.Sprintf("the VM did not start: %s", o.Message)
	}
	return e
}

func startedAt(r entry, exit shim.Exit) time.Time {
	if !r.Started.IsZero() {
		return r.Started
	}
	return exit.Started
}
