package pod

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/status"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

// terminate stops and deletes whatever there is of the Pod's VMs and volumes and
// gives the slot back, then shows the end. It fails only when ctx ends.
func (w *worker) terminate(ctx context.Context, ended *state.View) error {
	if w.progress.UID == "" {
		if err := w.loadForTermination(ctx); err != nil {
			return err
		}
	}
	if ended == nil {
		w.report.failing(context.Cause(w.life))
	}
	if ended == nil && w.progress.MayRun() {
		w.ender.reportKilling()
		// A Pod that somebody else ended, as one that is gone, holds nothing any more.
		if !state.HasEnded(w.pod.current()) {
			if err := w.endCommand(ctx); err != nil {
				return err
			}
		}
	}
	w.probing.stop()
	grace := w.pod.grace(w.life)
	if ended != nil {
		grace = w.pod.shutdownGrace(w.life)
	}
	if w.progress.Step != "" {
		if err := w.removeVM(ctx, w.progress.VMName(), w.progress.Attempt, grace); err != nil {
			return err
		}
	}
	if err := w.removeOtherVMs(ctx, "", grace); err != nil {
		return err
	}
	if ended == nil && !state.HasEnded(w.pod.current()) {
		ended = w.killedView()
	}
	w.shared.inputs.Drop(w.pod.uid)
	if err := w.inputs.tearDown(ctx); err != nil {
		return err
	}
	w.slot.release()
	w.memory.release()
	if ended != nil {
		w.report.show(ended)
	}
	return nil
}

// loadForTermination is for Pods that are deleted or have ended when this agent first
// sees them.
func (w *worker) loadForTermination(ctx context.Context) error {
	return wait.UntilDone(ctx, w.clock, w.log, "reading the checkpoint", func() error {
		r, err := w.progress.checkpoints.Load(w.pod.uid)
		if err != nil {
			return err
		}
		w.progress.Record = state.RecordFor(w.pod.current(), w.shared.bootSession, r)
		w.progress.publish()
		if w.progress.MayRun() {
			w.memory.restore()
		}
		w.memory.settled()
		if w.progress.Step != "" {
			return nil
		}
		return w.loadLegacy(ctx)
	})
}

// killedView is the end of a Pod whose life ended before its VM exited: a terminal
// phase tells its owner that nothing of it runs any more.
func (w *worker) killedView() *state.View {
	p := w.pod.current()
	w.progress.Fit(p)
	e := w.killedExit()
	w.progress.Record = w.progress.Ended(p, e)
	// A container that still waits for init containers waits for good, as with a kubelet.
	if w.progress.Turn(p) == state.MainID {
		e = w.progress.EndUnrun(p, e)
	}
	// Of a Pod that is deleted the records of the shim say the same: its checkpoint goes
	// in a moment, and the disk may be slow.
	if p.DeletionTimestamp == nil && !w.pod.isGone() {
		if err := w.progress.checkpoints.Save(w.progress.Record); err != nil {
			w.log.Warn("the checkpoint cannot be written", "err", err)
		}
	}
	v := state.ViewOf(p, w.progress.Record, true, corev1.ContainerStateWaiting{Reason: state.ReasonInitializing})
	v.Final = &e
	if failed := w.progress.failure(); failed != nil {
		v.Failed, v.Disrupted = &failed.Failure, failed.disrupted
	}
	return &v
}

// killedExit is the exit of a VM that was stopped with its Pod. A guest that shut
// itself down first has succeeded all the same.
func (w *worker) killedExit() state.Exit {
	p := w.pod.current()
	if w.progress.MayRun() {
		return w.exits.read("the VM was stopped with its Pod")
	}
	if w.progress.Step == state.StepEnded {
		if e := w.progress.ExitOrLost(); !e.Unstarted {
			return e
		}
	}
	return state.LostCommand(p, w.progress.Record, w.progress.Turn(p), "the Pod ended before its VM ran", w.clock.Now())
}

// deletePod deletes the Pod object, once nothing is left of its VM and its end is shown,
// and then the checkpoint. Only a status that the API server will not take holds up nothing.
func (w *worker) deletePod(ctx context.Context) {
	if !w.pod.isGone() {
		err := w.status.Flush(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.log.Warn("the Pod is deleted without its last status", "err", err)
		}
		if err := w.deleteObject(ctx); err != nil {
			return
		}
		w.log.Info("Pod deleted")
	}
	if err := w.progress.checkpoints.Remove(w.pod.uid); err != nil {
		w.log.Warn("a checkpoint was left behind", "err", err)
	}
}

func (w *worker) deleteObject(ctx context.Context) error {
	p, now := w.pod.current(), int64(0)
	return wait.UntilDone(ctx, w.clock, w.log, "deleting the Pod", func() error {
		if w.pod.isGone() {
			return nil
		}
		if err := removeLegacyFinalizer(ctx, w.shared.client, w.pod.current()); err != nil {
			return err
		}
		err := w.shared.client.Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now,
			Preconditions:      &metav1.Preconditions{UID: &p.UID},
		})
		if status.IsGone(err, p.Name) {
			return nil
		}
		return err
	})
}
