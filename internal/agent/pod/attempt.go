package pod

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/admission"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/filetree"
)

// mainLog is the file with the main container's output.
const mainLog = "main.log"

// attempt makes one VM and returns its exit.
func (w *worker) attempt(ctx context.Context) (state.Exit, error) {
	w.progress.Step, w.progress.BootSession, w.progress.Started = state.StepCreating, w.shared.bootSession, time.Time{}
	w.progress.Fit(w.pod.current())
	w.inputs.prepared = nil
	w.memory.resize()
	// A Pod that the licence refused says so until it has a slot.
	refused := w.report.showsLicenseLimit()
	if !refused {
		w.report.showProgress()
	}
	if err := w.inputs.prepare(ctx); err != nil {
		return state.Exit{}, err
	}
	ref, err := w.images.pull(ctx)
	if err != nil {
		return state.Exit{}, err
	}
	if refused {
		w.report.showWaiting(state.ReasonLimited, w.slot.limitMessage())
	}
	if err := w.acquireRoom(ctx, ref, refused); err != nil {
		return state.Exit{}, err
	}
	w.progress.save()
	if err := w.create(ctx, ref); err != nil {
		return state.Exit{}, err
	}
	if err := w.start(ctx); err != nil {
		return state.Exit{}, err
	}
	return w.watch(ctx)
}

// acquireRoom waits for a slot and for memory. Who waits for memory holds no slot: whoever
// has the memory may wait for that.
func (w *worker) acquireRoom(ctx context.Context, ref string, refused bool) error {
	least, err := w.runtime.Driver.LeastMemory(ctx, ref)
	if err != nil {
		w.log.Warn("the least memory of the image is not known", "image", ref, "err", err)
	}
	for {
		if err := w.slot.acquire(ctx); err != nil {
			return err
		}
		if refused {
			w.report.showProgress()
		}
		waited, err := w.memory.acquire(ctx, least, w.slot.release)
		if err != nil || !waited {
			return err
		}
	}
}

// create clones the image under the attempt's name.
func (w *worker) create(ctx context.Context, ref string) error {
	name := w.progress.VMName()
	shape := admission.ShapeOf(w.pod.current(), w.shared.host)
	shape.MemoryBytes = w.progress.MemoryBytes
	clone := func() error { return w.runtime.Create(ctx, name, ref, shape) }
	return w.retryStart(ctx, func(error) string { return "CreateContainerError" }, func() error {
		err := clone()
		if errors.Is(err, vm.ErrNotFound) {
			// The image was removed since it was pulled.
			if ref, err = w.images.pull(ctx); err == nil {
				err = clone()
			}
		}
		if err != nil {
			return err
		}
		w.progress.CloneBytes = filetree.Size(w.runtime.Dir(name), filetree.Limits{})
		w.log.Info("VM created", "machine", name)
		w.report.event(corev1.EventTypeNormal, "Created", "Created VM "+name)
		return nil
	})
}

func (w *worker) start(ctx context.Context) error {
	return w.retryStart(ctx, startWaitingReason, func() error {
		if err := errors.Join(w.progress.checkpoints.ClearAttempt(w.progress.UID, w.progress.Attempt), w.shared.inputs.ClearReport(w.progress.UID)); err != nil {
			return err
		}
		if err := w.gate.Prove(ctx); err != nil {
			return err
		}
		// Anew, as the Pod may have waited for hours: inputs are as of now, and directories
		// of the host are where they were allowed to be.
		if err := w.inputs.prepareOnce(ctx); err != nil {
			return &notPreparedError{err}
		}
		spec, err := w.shimSpec()
		if err != nil {
			return err
		}
		// Not before: a Pod that waits for the guard cannot have run, whatever comes.
		w.progress.Step = state.StepStarting
		w.progress.save()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return w.runtime.Shims.Start(w.progress.dir(), spec)
	})
}

func (w *worker) shimSpec() (shim.Spec, error) {
	name := w.progress.VMName()
	c, err := w.runtime.Driver.RunCommand(name, vm.RunOptions{Shares: w.inputs.prepared.Shares})
	if err != nil {
		return shim.Spec{}, err
	}
	s := shim.Spec{
		Run:         shim.Command{Path: c.Path, Args: c.Args, Env: c.Env},
		GuestSocket: w.runtime.Driver.GuestSocket(name),
	}
	if !state.RunsCommand(w.pod.current()) {
		s.Log = mainLog
	}
	return s, nil
}

// retryStart tries with the back-off of pulls, showing the reason of each failure.
func (w *worker) retryStart(ctx context.Context, reasonOf func(error) string, try func() error) error {
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
		w.report.event(corev1.EventTypeWarning, startEventReason(err), "Error: "+err.Error())
		w.report.showWaiting(reason, err.Error())
		if err := wait.For(ctx, w.clock, state.PullDelay(failures)); err != nil {
			return err
		}
	}
}
