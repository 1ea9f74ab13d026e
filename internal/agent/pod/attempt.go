package pod

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/slot"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// lockPoll is how often a started machine is looked at until its lock is held.
	lockPoll = 50 * time.Millisecond
	// lockTimeout: a clone of another Pod may hold up the start for long.
	lockTimeout = 5 * time.Minute
	// mainLog is the file with the main container's output.
	mainLog = "main.log"
)

// attempt makes one machine and returns its end.
func (w *worker) attempt(ctx context.Context) (end, error) {
	w.rec.Step, w.rec.BootSession, w.rec.Started = stepCreating, w.bootSession, time.Time{}
	if w.rec.Inits == nil {
		w.rec.Inits = make([]lived, len(w.current().Spec.InitContainers))
	}
	w.given = nil
	// What was refused says so until it has a slot.
	refused := w.slotless()
	if !refused {
		w.showNow()
	}
	if err := w.prepare(ctx); err != nil {
		return end{}, err
	}
	ref, err := w.pull(ctx)
	if err != nil {
		return end{}, err
	}
	if refused {
		w.waiting(reasonLimited, w.limited())
	}
	if err := w.slots.Acquire(ctx, string(w.uid)); err != nil {
		return end{}, err
	}
	if refused {
		w.showNow()
	}
	w.save()
	if err := w.create(ctx, ref); err != nil {
		return end{}, err
	}
	if err := w.start(ctx); err != nil {
		return end{}, err
	}
	return w.watch(ctx)
}

// limited says what a Pod whose start the licence refused waits for.
func (w *worker) limited() string {
	lost := w.slots.Leaked()
	if lost == 0 {
		return fmt.Sprintf("macOS runs %d macOS guests at once at most and refused another one: the Pod waits until one of them ends", slot.Licence)
	}
	return fmt.Sprintf("macOS runs %d macOS guests at once at most and has lost %d of these places, which it counts for guests that are gone: "+
		"the Mac is rebooted as soon as no Pod runs on it, which gives them back", slot.Licence, lost)
}

// slotless: the attempt before was refused by the licence.
func (w *worker) slotless() bool {
	w.showing.Lock()
	defer w.showing.Unlock()
	if w.shown == nil {
		return false
	}
	for _, s := range w.shown.all() {
		if s.Waiting != nil && s.Waiting.Reason == reasonLimited {
			return true
		}
	}
	return false
}

// create clones under the attempt's name.
func (w *worker) create(ctx context.Context, ref string) error {
	name := w.rec.machine()
	return w.retrying(ctx, func(error) string { return "CreateContainerError" }, func() error {
		err := w.clone(ctx, name, ref)
		if errors.Is(err, vm.ErrNotFound) {
			// The image was removed since it was pulled.
			if ref, err = w.pull(ctx); err == nil {
				err = w.clone(ctx, name, ref)
			}
		}
		if err != nil {
			return err
		}
		w.log.Info("VM created", "machine", name)
		w.event(corev1.EventTypeNormal, "Created", "Created VM "+name)
		return nil
	})
}

// clone replaces what is left of an earlier try under the name: it is ours and was
// never run.
func (w *worker) clone(ctx context.Context, name, ref string) error {
	shape := ShapeOfPod(w.current(), w.host)
	err := w.driver.Create(ctx, name, ref, shape)
	if !errors.Is(err, vm.ErrExists) {
		return err
	}
	if err := w.driver.Delete(ctx, name); err != nil {
		return err
	}
	return w.driver.Create(ctx, name, ref, shape)
}

func (w *worker) start(ctx context.Context) error {
	return w.retrying(ctx, whyNotStarted, func() error {
		if err := errors.Join(w.journal.clearAttempt(w.uid, w.rec.Attempt), w.inputs.ClearReport(w.uid)); err != nil {
			return err
		}
		if err := w.arm(ctx); err != nil {
			return err
		}
		// Anew, as the Pod may have waited for hours: what it is given is as of now, and
		// directories of the host are where they were allowed to be.
		if err := w.prepareOnce(ctx); err != nil {
			return &notPreparedError{err}
		}
		spec, err := w.spec()
		if err != nil {
			return err
		}
		// Not before: what waits for the guard cannot have run, whatever comes.
		w.rec.Step = stepStarting
		w.save()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return w.runs.Start(w.dir(), spec)
	})
}

// dir is that of the attempt.
func (w *worker) dir() string { return w.journal.attemptDir(w.uid, w.rec.Attempt) }

func (w *worker) spec() (shim.Spec, error) {
	name := w.rec.machine()
	c, err := w.driver.RunCommand(name, vm.RunOptions{Shares: w.given.Shares})
	if err != nil {
		return shim.Spec{}, err
	}
	s := shim.Spec{
		Run:         shim.Command{Path: c.Path, Args: c.Args, Env: c.Env},
		GuestSocket: w.driver.GuestSocket(name),
	}
	if !commandMode(w.current()) {
		s.Log = mainLog
	}
	return s, nil
}

// retrying tries with the back-off of pulls, showing the reason of each failure.
func (w *worker) retrying(ctx context.Context, reasonOf func(error) string, try func() error) error {
	for failures := 1; ; failures++ {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		reason := reasonOf(err)
		w.log.Warn("VM not started", "reason", reason, "err", err)
		w.event(corev1.EventTypeWarning, eventOfStart(err), "Error: "+err.Error())
		w.waiting(reason, err.Error())
		if !wait(ctx, w.clock, pullDelay(failures)) {
			return context.Cause(ctx)
		}
	}
}

// untilDone tries until it works or ctx ends, which is the only error. It is for
// what must not be skipped.
func (w *worker) untilDone(ctx context.Context, doing string, try func() error) error {
	for delay := time.Second; ; delay = min(2*delay, 30*time.Second) {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.log.Warn(doing+" failed, trying again", "err", err)
		if !wait(ctx, w.clock, delay) {
			return context.Cause(ctx)
		}
	}
}
