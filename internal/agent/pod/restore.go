package pod

import (
	"context"
	"errors"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// restorer finds what an earlier agent left of one Pod.
type restorer struct {
	pod         *object
	progress    *progress
	runtime     *vmruntime.Runtime
	bootSession string
	clock       clock.Clock
	log         *slog.Logger
}

// find looks at the checkpoint and the host.
func (r *restorer) find(ctx context.Context, p *corev1.Pod) (state.Findings, error) {
	f := state.Findings{BootSession: r.bootSession, Ran: r.progress.ran}
	err := wait.UntilDone(ctx, r.clock, r.log, "looking for the Pod's VM", func() (err error) {
		if f.Record, err = r.progress.checkpoints.Load(p.UID); err != nil {
			return err
		}
		if f.Reconstructed = f.Record == nil; f.Reconstructed {
			f.Record, err = r.reconstruct(ctx, p)
		}
		if err != nil || f.Record == nil {
			return err
		}
		return r.observeAttempt(ctx, &f)
	})
	return f, err
}

func (r *restorer) observeAttempt(ctx context.Context, f *state.Findings) error {
	dir := r.progress.checkpoints.AttemptDir(r.pod.uid, f.Record.Attempt)
	machine, err := r.runtime.Driver.Machine(ctx, f.Record.VMName())
	if err != nil && !errors.Is(err, vm.ErrNotFound) {
		return err
	}
	f.Running = machine.Running
	if f.ShimAlive, err = r.runtime.Shims.Alive(dir); err != nil {
		return err
	}
	if f.ShimStarted, err = r.runtime.Shims.Started(dir); err != nil {
		return err
	}
	f.Exit, err = r.runtime.Shims.Exit(dir)
	return err
}

// reconstruct makes up for a lost checkpoint. Nil: nothing tells of an attempt that
// ran.
func (r *restorer) reconstruct(ctx context.Context, p *corev1.Pod) (*state.Record, error) {
	last, at, err := r.lastAttempt(ctx)
	if err != nil {
		return nil, err
	}
	if found := state.Reconstruct(p, r.bootSession, last, at); found != nil {
		return found, nil
	}
	return r.legacyRecord(ctx, p)
}

// lastAttempt is the last one on the host that got as far as a shim, and how far; -1
// when there is none.
func (r *restorer) lastAttempt(ctx context.Context) (int, state.Step, error) {
	last, err := r.progress.checkpoints.LastAttempt(r.pod.uid)
	if err != nil {
		return 0, "", err
	}
	machines, err := r.runtime.Driver.Machines(ctx)
	if err != nil {
		return 0, "", err
	}
	at := state.StepStarting
	for _, m := range machines {
		if uid, attempt, ours := state.ParseVMName(m.Name); ours && uid == r.pod.uid && m.Running && attempt >= last {
			last, at = attempt, state.StepRunning
		}
	}
	return last, at, nil
}

// restore takes up what an earlier agent left of the Pod and says how to go on.
func (w *worker) restore(ctx context.Context, p *corev1.Pod) (state.Action, string, error) {
	f, err := w.restorer.find(ctx, p)
	if err != nil {
		return "", "", err
	}
	action, why := state.Resume(f)
	w.progress.Record, w.progress.reconstructed = state.RecordFor(p, w.shared.bootSession, f.Record), f.Reconstructed
	if e := w.progress.Ending; e != nil && e.ContainerOnly {
		w.progress.Ending = nil
	}
	w.progress.mainRan = w.progress.mainRan || w.progress.MainsRan(p)
	w.progress.ran = w.progress.ran || w.progress.mainRan || w.progress.Step == state.StepRunning
	w.progress.publish()
	if !w.isNew(action) {
		w.memory.restore()
	}
	w.memory.settled()
	if f.Record != nil || why != "" {
		w.log.Info("Pod found again", "move", action, "why", why, "machine", w.progress.VMName())
	}
	keep := ""
	if action == state.ActionReattach {
		keep = w.progress.VMName()
	}
	// What is not gone on with has ended, and only its guest is to go down.
	return action, why, w.removeOtherVMs(ctx, keep, w.pod.shutdownGrace(w.life))
}

// isNew reports that the Pod was never admitted: what was admitted once stays so,
// whatever a later agent or profile allows.
func (w *worker) isNew(action state.Action) bool {
	return action == state.ActionBegin && w.progress.Step == "" && !w.progress.ran
}

// removeOtherVMs removes VMs of this Pod other than keep within a grace, so that there is
// never more than one.
func (w *worker) removeOtherVMs(ctx context.Context, keep string, grace vmruntime.Grace) error {
	return wait.UntilDone(ctx, w.clock, w.log, "removing other VMs of the Pod", func() error {
		machines, err := w.runtime.Driver.Machines(ctx)
		if err != nil {
			return err
		}
		for _, other := range machines {
			uid, attempt, ours := state.ParseVMName(other.Name)
			if !ours || uid != w.pod.uid || other.Name == keep {
				continue
			}
			if err := w.removeVM(ctx, other.Name, attempt, grace); err != nil {
				return err
			}
		}
		return nil
	})
}

// removeVM stops one VM of the Pod within a grace and deletes it.
func (w *worker) removeVM(ctx context.Context, name string, attempt int, grace vmruntime.Grace) error {
	dir := w.progress.checkpoints.AttemptDir(w.pod.uid, attempt)
	deleted, err := w.runtime.Remove(ctx, name, dir, grace)
	if deleted {
		w.shared.slots.GuestDeleted(name)
	}
	return err
}
