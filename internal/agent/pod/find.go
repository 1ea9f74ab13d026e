package pod

import (
	"context"
	"errors"
	"slices"
	"strings"

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
		if f.Traced = f.Record == nil; f.Traced {
			f.Record, err = w.recordFromTraces(ctx, p)
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
	w.rec, w.traced = w.recordFor(p, f.Record), f.Traced
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

// recordFromTraces makes up for a lost journal: the last attempt is the highest of
// which a directory or a running machine is left, or that the API shows. Nil: nothing
// tells of one that ran.
func (w *worker) recordFromTraces(ctx context.Context, p *corev1.Pod) (*entry, error) {
	last, at, err := w.lastTrace(ctx)
	if err != nil {
		return nil, err
	}
	r, shown := w.recordFor(p, nil), attemptShown(p)
	if shown >= 0 && last > shown {
		// What is shown is of an attempt before.
		r = r.next()
	} else if e := r.endShown(); e != nil {
		r.Step, r.Outcome = stepEnded, e
		return &r, nil
	}
	if last < 0 {
		return w.recordFromFormer(ctx, p)
	}
	r.Attempt, r.Step = last, at
	return &r, nil
}

// lastTrace is the last attempt that got as far as a shim, and how far; -1 when there
// is none.
func (w *worker) lastTrace(ctx context.Context) (int, step, error) {
	last, err := w.journal.lastAttempt(w.uid)
	if err != nil {
		return 0, "", err
	}
	machines, err := w.driver.Machines(ctx)
	if err != nil {
		return 0, "", err
	}
	at := stepStarting
	for _, m := range machines {
		if uid, attempt, ours := parseMachineName(m.Name); ours && uid == w.uid && m.Running && attempt >= last {
			last, at = attempt, stepRunning
		}
	}
	return last, at, nil
}

// attemptShown is the highest attempt that the status knows of; -1: none.
func attemptShown(p *corev1.Pod) int {
	highest := -1
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		name, _, _ := strings.Cut(strings.TrimPrefix(s.ContainerID, containerIDPrefix), "/")
		if uid, attempt, ours := parseMachineName(name); ours && uid == p.UID {
			highest = max(highest, attempt)
		}
	}
	return highest
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
		fresh.lived, fresh.Image, fresh.ImageID = livedIn(s, ""), s.Image, s.ImageID
		fresh.Started = fresh.Begun
		fresh.Attempt = max(int(s.RestartCount), attemptShown(p))
	}
	fresh.Inits = make([]lived, len(p.Spec.InitContainers))
	for i, s := range p.Status.InitContainerStatuses {
		if i < len(fresh.Inits) {
			fresh.Inits[i] = livedIn(s, initID(i))
		}
	}
	return fresh
}

// livedIn is what a status tells of a container.
func livedIn(s corev1.ContainerStatus, init string) lived {
	l := lived{Restarts: s.RestartCount}
	if t := s.LastTerminationState.Terminated; t != nil {
		l.Last = endIn(*t, init)
	}
	switch {
	case s.State.Running != nil:
		l.Begun = s.State.Running.StartedAt.Time
	case s.State.Terminated != nil:
		l.Begun, l.End = s.State.Terminated.StartedAt.Time, endIn(*s.State.Terminated, init)
	case s.State.Waiting != nil && s.State.Waiting.Reason == reasonBackOff && l.Last != nil:
		// It ended in the last attempt, and the next one has not begun.
		l.Begun, l.End, l.Last = l.Last.Started, l.Last, nil
	}
	return l
}

func endIn(t corev1.ContainerStateTerminated, init string) *end {
	return &end{
		Code: t.ExitCode, Reason: t.Reason, Message: t.Message, Init: init,
		Machine: strings.TrimPrefix(t.ContainerID, containerIDPrefix), Started: t.StartedAt.Time, Finished: t.FinishedAt.Time,
	}
}

// endShown is how the attempt that a status shows has ended: by the end of the main
// container or by that of an init container that failed. Where no container runs
// since, it is the last end there was. Nil: it has not ended.
func (r entry) endShown() *end {
	var last *end
	for _, l := range append(slices.Clone(r.Inits), r.lived) {
		if l.End != nil && (l.End.Init == "" || l.End.Code != 0) {
			return l.End
		}
		if l.Last != nil {
			last = l.Last
		}
	}
	if r.hasBegun() {
		return nil
	}
	return last
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
