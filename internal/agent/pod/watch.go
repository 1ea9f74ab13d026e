package pod

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// watch follows a machine whose shim was just started to its end.
func (w *worker) watch(ctx context.Context) (end, error) {
	gone := w.shimGone(w.dir())
	running, err := w.awaitLock(ctx, gone)
	if err != nil {
		return end{}, err
	}
	if !running {
		return w.readEnd(whyUnrecorded), nil
	}
	if err := w.armAgain(ctx, gone); err != nil {
		return w.stopUnfenced(ctx, err)
	}
	w.markRunning()
	return w.follow(ctx, gone, w.armWhileStarting)
}

// proofs asks the guard about a machine that runs. They go on beside what is done in
// the guest, and touch nothing of the worker's.
type proofs func(ctx context.Context, gone <-chan struct{}) error

// waitRetry is the pause after a machine could not be waited for.
const waitRetry = time.Second

// whyUnrecorded is what is told of an end that nobody wrote down.
const whyUnrecorded = "the VM ended and its exit was not recorded"

// follow takes a machine that runs to the end of the attempt, with the proofs that
// are owed meanwhile.
func (w *worker) follow(ctx context.Context, gone <-chan struct{}, prove proofs) (end, error) {
	attempt, cancel := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel(nil)
	given, image := w.given, w.rec.Image
	beside.Go(func() { w.tend(attempt, given) })
	beside.Go(func() { w.settle(attempt, gone) })
	beside.Go(func() {
		if err := prove(attempt, gone); err != nil {
			cancel(err)
		}
	})
	beside.Go(func() {
		if err := w.awaitChange(attempt, image); err != nil {
			cancel(err)
		}
	})
	e, err := w.within(attempt, gone)
	var changed *changedError
	switch {
	case err == nil || ctx.Err() != nil:
		return e, err
	case errors.As(err, &changed):
		return w.stopChanged(ctx, changed)
	}
	return w.stopUnfenced(ctx, err)
}

// settledAfter is how long a machine runs before its start counts as one that macOS
// allowed: a start that is refused holds the lock for a second or two.
const settledAfter = 10 * time.Second

// settle tells of a machine that has outlived what refuses a start.
func (w *worker) settle(ctx context.Context, gone <-chan struct{}) {
	if w.settled == nil {
		return
	}
	if over, err := w.pause(ctx, gone, settledAfter); !over && err == nil {
		w.settled()
	}
}

// within is what a machine is there for.
func (w *worker) within(ctx context.Context, gone <-chan struct{}) (end, error) {
	e, err := w.inside(ctx)
	if err != nil {
		return end{}, err
	}
	if e != nil {
		return *e, nil
	}
	if err := w.awaitEnd(ctx, gone); err != nil {
		return end{}, err
	}
	return w.readEnd(whyUnrecorded), nil
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
			if err := w.runs.Kill(w.dir()); err != nil {
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

// markRunning: the machine runs. Where there is nothing to do in the guest, so does
// the container.
func (w *worker) markRunning() {
	w.rec.Step, w.rec.Started = stepRunning, w.clock.Now()
	if p := w.current(); needsNothing(p) || !commandMode(p) && len(p.Spec.InitContainers) == 0 && w.given != nil && w.given.Setup == "" {
		w.rec.Begun, w.began = w.rec.Started, true
	}
	w.ran = true
	w.save()
	w.log.Info("VM runs", "machine", w.rec.machine())
	w.showNow()
	w.event(corev1.EventTypeNormal, "Started", "Started VM "+w.rec.machine())
}

// awaitEnd waits for the shim to go, and then for the machine, should the shim
// have been killed over its head. A machine that ended has ended, also where ctx
// did at the same time.
func (w *worker) awaitEnd(ctx context.Context, gone <-chan struct{}) error {
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
		err := w.driver.Wait(ctx, w.rec.machine())
		if err == nil || errors.Is(err, vm.ErrNotFound) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.log.Warn("waiting for a VM to end failed, trying again", "machine", w.rec.machine(), "err", err)
		if !wait(ctx, w.clock, waitRetry) {
			return context.Cause(ctx)
		}
	}
}

// readEnd takes the end from what is written down, or says that nobody knows.
func (w *worker) readEnd(otherwise string) end {
	p, dir := w.current(), w.dir()
	m := remains{Why: otherwise}
	if w.rec.Former != "" {
		m.Why = whyFormerEnded
	}
	begun, ended, err := w.runs.Command(dir, setupID)
	s, err := standingOf(commandIDs(p, begun || ended != nil || err != nil), func(id string) (bool, *shim.CommandEnd, error) { return w.runs.Command(dir, id) })
	if err != nil {
		w.log.Warn("the record of a command cannot be read", "err", err)
	}
	m.Standing = s
	if m.Exit, err = w.runs.Exit(dir); err != nil {
		w.log.Warn("the exit record cannot be read", "err", err)
	}
	if m.Exit != nil {
		m.Outcome = w.driver.Classify(vm.RunEnd{Code: m.Exit.Code, Signal: m.Exit.Signal, Tail: m.Exit.Tail})
	}
	if code, found := w.inputs.ExitReport(w.uid); found && !commandMode(p) {
		m.Report = &code
	}
	return endOf(p, w.rec, m, w.clock.Now())
}
