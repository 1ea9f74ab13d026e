package pod

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/image"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// lockPoll is how often a started machine is looked at until its lock is held.
	lockPoll = 50 * time.Millisecond
	// lockTimeout: a clone of another Pod may hold up the start for long.
	lockTimeout = 5 * time.Minute
	// orphanPoll is how often a machine without a shim is looked at.
	orphanPoll = time.Second
	// backOffShown is how long the error of a pull is shown before the back-off is.
	backOffShown = time.Second
)

// find looks at what is there of the Pod and says how to go on.
func (w *worker) find(ctx context.Context, p *corev1.Pod) (move, string, error) {
	f := found{BootSession: w.bootSession, Ran: w.ran}
	err := w.untilDone(ctx, "looking for the Pod's VM", func() (err error) {
		if f.Record, err = w.journal.load(w.uid); err != nil {
			return err
		}
		if f.Record == nil {
			f.Record, err = w.recordFromMachines(ctx, p)
		}
		if err != nil || f.Record == nil {
			return err
		}
		dir := w.journal.attemptDir(w.uid, f.Record.Attempt)
		machine, err := w.driver.Machine(ctx, f.Record.machine())
		if err != nil && !errors.Is(err, vm.ErrNotFound) {
			return err
		}
		f.Running = machine.Running
		if f.ShimAlive, err = w.runs.Alive(dir); err != nil {
			return err
		}
		if f.ShimStarted, err = w.runs.Started(dir); err != nil {
			return err
		}
		f.Exit, err = w.runs.Exit(dir)
		return err
	})
	if err != nil {
		return "", "", err
	}
	m, why := resume(f)
	w.rec = w.recordFor(p, f.Record)
	w.ran = w.ran || w.rec.Last != nil || w.rec.Step == stepRunning
	if f.Record != nil || why != "" {
		w.log.Info("Pod found again", "move", m, "why", why, "machine", w.rec.machine())
	}
	return m, why, w.dropOthers(ctx, m)
}

// recordFromMachines makes up for a lost journal: a machine of this Pod that runs
// is the attempt to go on with.
func (w *worker) recordFromMachines(ctx context.Context, p *corev1.Pod) (*entry, error) {
	machines, err := w.driver.Machines(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range machines {
		if uid, attempt, ours := parseMachineName(m.Name); ours && uid == w.uid && m.Running {
			r := w.recordFor(p, nil)
			r.Attempt, r.Step = attempt, stepRunning
			return &r, nil
		}
	}
	return nil, nil
}

func (w *worker) recordFor(p *corev1.Pod, r *entry) entry {
	if r != nil {
		return *r
	}
	fresh := entry{UID: w.uid, Namespace: p.Namespace, Name: p.Name, BootSession: w.bootSession}
	if len(p.Status.ContainerStatuses) > 0 {
		s := p.Status.ContainerStatuses[0]
		fresh.Restarts, fresh.ImageID = s.RestartCount, s.ImageID
		// Machines that the journal no longer knows have lower numbers.
		fresh.Attempt = int(s.RestartCount)
		if s.State.Running != nil {
			fresh.Started = s.State.Running.StartedAt.Time
		}
	}
	return fresh
}

// dropOthers removes machines of this Pod that nobody goes on with, so that there
// is never more than one.
func (w *worker) dropOthers(ctx context.Context, m move) error {
	keep := ""
	if m == moveAdopt {
		keep = w.rec.machine()
	}
	return w.untilDone(ctx, "removing other VMs of the Pod", func() error {
		machines, err := w.driver.Machines(ctx)
		if err != nil {
			return err
		}
		for _, other := range machines {
			uid, attempt, ours := parseMachineName(other.Name)
			if !ours || uid != w.uid || other.Name == keep {
				continue
			}
			if err := w.remove(ctx, other.Name, attempt); err != nil {
				return err
			}
		}
		return nil
	})
}

// attempt makes one machine and returns its end.
func (w *worker) attempt(ctx context.Context) (end, error) {
	w.rec.Step, w.rec.BootSession, w.rec.Started = stepCreating, w.bootSession, time.Time{}
	w.waiting("ContainerCreating", "")
	if err := w.pull(ctx); err != nil {
		return end{}, err
	}
	if err := w.slots.Acquire(ctx, string(w.uid)); err != nil {
		return end{}, err
	}
	w.save()
	if err := w.create(ctx); err != nil {
		return end{}, err
	}
	if err := w.start(ctx); err != nil {
		return end{}, err
	}
	return w.watch(ctx)
}

// pull brings the image here, as often as it takes.
func (w *worker) pull(ctx context.Context) error {
	c := w.current().Spec.Containers[0]
	w.rec.Image = c.Image
	for failures := 0; ; {
		err := w.pullOnce(ctx, c)
		if err == nil {
			w.waiting("ContainerCreating", "")
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failures++
		reason := pullReason(err)
		w.event(corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, err))
		w.waiting(reason, err.Error())
		delay := pullDelay(failures)
		if !wait(ctx, w.clock, backOffShown) {
			return context.Cause(ctx)
		}
		if reason == "ErrImagePull" {
			w.waiting("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: %v", c.Image, err))
			w.event(corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", c.Image))
		}
		if !wait(ctx, w.clock, delay-backOffShown) {
			return context.Cause(ctx)
		}
	}
}

func (w *worker) pullOnce(ctx context.Context, c corev1.Container) error {
	digest, needed, err := w.images.NeedsPull(ctx, c.Image, c.ImagePullPolicy)
	if err != nil {
		return err
	}
	if !needed {
		w.rec.ImageID = digest
		w.event(corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine", c.Image))
		return nil
	}
	w.event(corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	begin := w.clock.Now()
	if w.rec.ImageID, err = w.images.Pull(ctx, c.Image); err != nil {
		return err
	}
	took := w.clock.Since(begin).Round(time.Millisecond)
	w.log.Info("image pulled", "image", c.Image, "digest", w.rec.ImageID, "took", took)
	w.event(corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q in %s", c.Image, took))
	return nil
}

// pullReason is the waiting reason of a failed pull. Only ErrImagePull backs off
// visibly: the others need a person, and keep their name.
func pullReason(err error) string {
	switch {
	case errors.Is(err, image.ErrNeverPull):
		return "ErrImageNeverPull"
	case errors.Is(err, vm.ErrInvalidReference):
		return "InvalidImageName"
	}
	return "ErrImagePull"
}

// create clones under the attempt's name. What is left of an earlier try under the
// name is ours and was never run.
func (w *worker) create(ctx context.Context) error {
	c := w.current().Spec.Containers[0]
	name := w.rec.machine()
	return w.retrying(ctx, func(error) string { return "CreateContainerError" }, func() error {
		if err := w.journal.clearAttempt(w.uid, w.rec.Attempt); err != nil {
			return err
		}
		err := w.driver.Create(ctx, name, c.Image, ShapeOf(c, w.host))
		if errors.Is(err, vm.ErrExists) {
			if err := w.driver.Delete(ctx, name); err != nil {
				return err
			}
			err = w.driver.Create(ctx, name, c.Image, ShapeOf(c, w.host))
		}
		if err != nil {
			return err
		}
		w.log.Info("VM created", "machine", name)
		w.event(corev1.EventTypeNormal, "Created", "Created VM "+name)
		return nil
	})
}

func (w *worker) start(ctx context.Context) error {
	name := w.rec.machine()
	return w.retrying(ctx, startReason, func() error {
		if err := w.journal.clearAttempt(w.uid, w.rec.Attempt); err != nil {
			return err
		}
		if err := w.arm(ctx); err != nil {
			return err
		}
		// Not before: what waits for the guard cannot have run, whatever comes.
		w.rec.Step = stepStarting
		w.save()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return w.runs.Start(w.journal.attemptDir(w.uid, w.rec.Attempt), w.driver.RunCommand(name, vm.RunOptions{}))
	})
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
		w.event(corev1.EventTypeWarning, eventOf(err), "Error: "+err.Error())
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
