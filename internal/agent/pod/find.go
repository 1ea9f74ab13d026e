package pod

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
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
		return w.lookAtAttempt(ctx, *f.Record, &f)
	})
	if err != nil {
		return "", "", err
	}
	m, why := resume(f)
	w.rec = w.recordFor(p, f.Record)
	w.began = w.began || !w.rec.Begun.IsZero() || w.rec.End != nil || w.rec.Last != nil
	w.ran = w.ran || w.began || w.rec.Step == stepRunning
	if f.Record != nil || why != "" {
		w.log.Info("Pod found again", "move", m, "why", why, "machine", w.rec.machine())
	}
	return m, why, w.dropOthers(ctx, m)
}

func (w *worker) lookAtAttempt(ctx context.Context, r entry, f *found) error {
	dir := w.journal.attemptDir(w.uid, r.Attempt)
	machine, err := w.driver.Machine(ctx, r.machine())
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

// recordFor is the Pod's record, or what the API shows of one that is lost.
func (w *worker) recordFor(p *corev1.Pod, r *entry) entry {
	if r != nil {
		known := *r
		known.Inits = append(known.Inits, make([]lived, max(0, len(p.Spec.InitContainers)-len(known.Inits)))...)
		return known
	}
	fresh := entry{UID: w.uid, Namespace: p.Namespace, Name: p.Name, BootSession: w.bootSession}
	if len(p.Status.ContainerStatuses) > 0 {
		s := p.Status.ContainerStatuses[0]
		fresh.lived, fresh.ImageID = livedIn(s), s.ImageID
		fresh.Started = fresh.Begun
		// Machines that the journal no longer knows have lower numbers.
		fresh.Attempt = int(s.RestartCount)
	}
	fresh.Inits = make([]lived, len(p.Spec.InitContainers))
	for i, s := range p.Status.InitContainerStatuses {
		if i < len(fresh.Inits) {
			fresh.Inits[i] = livedIn(s)
		}
	}
	return fresh
}

func livedIn(s corev1.ContainerStatus) lived {
	l := lived{Restarts: s.RestartCount}
	if s.State.Running != nil {
		l.Begun = s.State.Running.StartedAt.Time
	}
	return l
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
