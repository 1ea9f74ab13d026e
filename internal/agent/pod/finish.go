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
	// orphanGrace is for machines whose Pod sets no grace any more.
	orphanGrace = time.Second
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

// clear stops and deletes whatever there is of the Pod's machines and gives the
// slot back, then shows the end. It fails only when ctx ends.
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
	w.slots.Release(string(w.uid))
	switch {
	case ended != nil:
		w.publish(*ended)
	case !hasEnded(w.current()):
		w.showKilled()
	}
	return nil
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

// showKilled is the end of a Pod that is deleted before its time: a terminal phase
// is what tells its owner that nothing of it runs any more.
func (w *worker) showKilled() {
	e := w.killed()
	w.rec.Step, w.rec.Last = stepEnded, &e
	if err := w.journal.save(w.rec); err != nil {
		w.log.Warn("the journal cannot be written", "err", err)
	}
	w.publish(view{Ended: &e, Restarts: w.rec.Restarts, Machine: e.Machine, ImageID: w.rec.ImageID, Ran: true})
}

// killed is the end of a machine that was stopped with its Pod. A guest that shut
// itself down first has succeeded all the same.
func (w *worker) killed() end {
	if w.mayRun() {
		e, _ := w.readEnd("the VM was stopped with its Pod")
		return e
	}
	if w.rec.Step == stepEnded && w.rec.Last != nil && !w.rec.Last.Limited {
		return *w.rec.Last
	}
	return lost(w.rec, "the Pod was deleted before its VM ran", w.clock.Now())
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

// grace is what is left of the Pod's termination grace period.
func (w *worker) grace() time.Duration {
	p := w.current()
	if p.DeletionTimestamp == nil || w.isGone() {
		return orphanGrace
	}
	// The API server sets deletionTimestamp to the end of the grace period.
	return max(orphanGrace, p.DeletionTimestamp.Sub(w.clock.Now()))
}

// remove stops one machine of the Pod and deletes it. It returns once the machine
// runs no more; the error is that of ctx.
func (w *worker) remove(ctx context.Context, name string, attempt int) error {
	if err := w.stop(ctx, name, w.journal.attemptDir(w.uid, attempt)); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := w.driver.Delete(ctx, name)
		switch {
		case err == nil:
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
func (w *worker) stop(ctx context.Context, name, dir string) error {
	begin := w.clock.Now()
	for {
		done, err := w.stopOnce(ctx, name, dir, w.clock.Since(begin) > startingPatience)
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
	t := w.clock.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-w.runs.Gone(dir):
		return nil
	case <-t.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopOnce reports whether neither machine nor shim is left.
func (w *worker) stopOnce(ctx context.Context, name, dir string, kill bool) (bool, error) {
	m, err := w.driver.Machine(ctx, name)
	if err != nil && !errors.Is(err, vm.ErrNotFound) {
		return false, err
	}
	if m.Running {
		return false, w.driver.Stop(ctx, name, w.grace())
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
