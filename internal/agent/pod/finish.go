package pod

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// deleteTries: a stopped clone that cannot be deleted does not hold up its Pod
	// for ever; the sweep goes on trying.
	deleteTries = 5
	// startingPatience is how long a shim may take to get from its start to the
	// machine's lock, or from the machine's end to its exit record, while we want
	// it gone.
	startingPatience = 5 * time.Second
	// flushTimeout: a status that the API server does not take does not hold up a
	// deletion for ever.
	flushTimeout = 30 * time.Second
)

// clear stops and deletes whatever there is of the Pod's machines and volumes and
// gives the slot back, then shows the end. It fails only when ctx ends.
func (w *worker) clear(ctx context.Context, ended *view) error {
	if w.rec.UID == "" {
		if err := w.loadForClear(ctx); err != nil {
			return err
		}
	}
	if ended == nil && w.mayRun() {
		w.event(corev1.EventTypeNormal, "Killing", "Stopping VM "+w.rec.machine())
	}
	if err := w.removeAll(ctx); err != nil {
		return err
	}
	if ended == nil && !hasEnded(w.current()) {
		ended = w.killed()
	}
	w.inputs.Drop(w.uid)
	if err := w.wipe(ctx); err != nil {
		return err
	}
	w.slots.Release(string(w.uid))
	if ended != nil {
		w.show(ended)
	}
	return nil
}

// wipe removes what the Pod was given.
func (w *worker) wipe(ctx context.Context) error {
	for try := 1; ; try++ {
		err := w.inputs.TearDown(w.uid)
		if err == nil {
			return nil
		}
		if try >= deleteTries {
			w.log.Error("volumes of a Pod were left behind, the sweep will try again", "err", err)
			return nil
		}
		w.log.Warn("removing the Pod's volumes failed, trying again", "err", err)
		if !wait(ctx, w.clock, time.Second) {
			return context.Cause(ctx)
		}
	}
}

func (w *worker) mayRun() bool {
	return w.rec.Step == stepRunning || w.rec.Step == stepStarting
}

// loadForClear is for Pods that come deleted or ended to this agent.
func (w *worker) loadForClear(ctx context.Context) error {
	return w.untilDone(ctx, "reading the journal", func() error {
		r, err := w.journal.load(w.uid)
		if err == nil {
			w.rec = w.recordFor(w.current(), r)
			err = w.loadFormer(ctx)
		}
		return err
	})
}

func (w *worker) removeAll(ctx context.Context) error {
	if w.rec.Step != "" {
		if err := w.remove(ctx, w.rec.machine(), w.rec.Attempt); err != nil {
			return err
		}
	}
	return w.dropOthers(ctx, moveEnded)
}

// killed is the end of a Pod whose life ended before its machine did: a terminal
// phase is what tells its owner that nothing of it runs any more.
func (w *worker) killed() *view {
	e := w.killedEnd()
	w.rec = w.rec.ended(e)
	if w.rec.End == nil {
		// An init container was killed, or nothing has run at all.
		main := lost(w.rec, "the Pod ended before this container ran", e.Finished)
		w.rec.End = &main
	}
	// Of a Pod that is deleted the records of the shim say the same: its journal goes
	// in a moment, and the disk may be slow.
	if p := w.current(); p.DeletionTimestamp == nil && !w.isGone() {
		if err := w.journal.save(w.rec); err != nil {
			w.log.Warn("the journal cannot be written", "err", err)
		}
	}
	v := viewOf(w.current(), w.rec, true, corev1.ContainerStateWaiting{Reason: reasonInitializing})
	v.Final = &e
	var over *overError
	if errors.As(context.Cause(w.life), &over) {
		v.Over = &over.refusal
	}
	return &v
}

// killedEnd is the end of a machine that was stopped with its Pod. A guest that shut
// itself down first has succeeded all the same.
func (w *worker) killedEnd() end {
	if w.mayRun() {
		return w.readEnd("the VM was stopped with its Pod")
	}
	if w.rec.Step == stepEnded {
		if e := w.rec.outcome(); !e.Unstarted {
			return e
		}
	}
	return lost(w.rec, "the Pod ended before its VM ran", w.clock.Now())
}

// finish deletes the Pod object, once nothing is left of its machine.
func (w *worker) finish(ctx context.Context) {
	if !w.isGone() {
		flushing, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		if err := w.status.Flush(flushing); err != nil {
			w.log.Warn("the last status was not written", "err", err)
		}
		if err := w.deletePod(ctx); err != nil {
			return
		}
		w.log.Info("Pod deleted")
	}
	if err := w.journal.remove(w.uid); err != nil {
		w.log.Warn("a journal was left behind", "err", err)
	}
}

func (w *worker) deletePod(ctx context.Context) error {
	p, now := w.current(), int64(0)
	return w.untilDone(ctx, "deleting the Pod", func() error {
		if w.isGone() {
			return nil
		}
		if err := w.dropFormerFinalizer(ctx); err != nil {
			return err
		}
		err := w.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now,
			Preconditions:      &metav1.Preconditions{UID: &p.UID},
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// remove stops one machine of the Pod and deletes it. It returns once the machine
// runs no more; the error is that of ctx.
func (w *worker) remove(ctx context.Context, name string, attempt int) error {
	if err := w.stop(ctx, name, w.journal.attemptDir(w.uid, attempt), w.grace); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := w.driver.Delete(ctx, name)
		switch {
		case err == nil:
			w.former.drop(name)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case try >= deleteTries && !errors.Is(err, vm.ErrRunning):
			w.log.Error("a stopped VM was left behind, the sweep will try again", "machine", name, "err", err)
			return nil
		}
		w.log.Warn("deleting a VM failed, trying again", "machine", name, "err", err)
		if !wait(ctx, w.clock, time.Second) {
			return context.Cause(ctx)
		}
	}
}

// stop ends a machine and its shim.
func (w *worker) stop(ctx context.Context, name, dir string, grace func() time.Duration) error {
	begin := w.clock.Now()
	for {
		done, err := w.stopOnce(ctx, name, dir, grace, w.clock.Since(begin) > startingPatience)
		if done {
			return nil
		}
		if err != nil {
			w.log.Warn("stopping a VM failed, trying again", "machine", name, "err", err)
			if !wait(ctx, w.clock, time.Second) {
				return context.Cause(ctx)
			}
			continue
		}
		if err := w.awaitShim(ctx, dir); err != nil {
			return err
		}
	}
}

// awaitShim waits for the shim to write down the end, but looks again in time.
func (w *worker) awaitShim(ctx context.Context, dir string) error {
	_, err := w.pause(ctx, w.shimGone(dir), time.Second)
	return err
}

// shimGone is closed once no shim runs for the attempt in dir. To wait for a shim
// takes a thread for as long as it lives, so that there is one wait for each.
func (w *worker) shimGone(dir string) <-chan struct{} {
	if w.shim.dir == dir && w.shim.gone != nil {
		select {
		case <-w.shim.gone:
		default:
			return w.shim.gone
		}
	}
	w.shim.dir, w.shim.gone = dir, w.runs.Gone(dir)
	return w.shim.gone
}

// stopOnce reports whether neither machine nor shim is left.
func (w *worker) stopOnce(ctx context.Context, name, dir string, grace func() time.Duration, kill bool) (bool, error) {
	m, err := w.driver.Machine(ctx, name)
	if err != nil && !errors.Is(err, vm.ErrNotFound) {
		return false, err
	}
	if m.Running {
		return false, w.stopMachine(ctx, name, grace)
	}
	alive, err := w.runs.Alive(dir)
	if err != nil || !alive {
		return err == nil, err
	}
	if kill {
		return false, w.runs.Kill(dir)
	}
	return false, nil
}
