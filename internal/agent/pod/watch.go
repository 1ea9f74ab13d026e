package pod

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

// watch follows a VM whose shim was just started to its exit.
func (w *worker) watch(ctx context.Context) (state.Exit, error) {
	name, dir := w.progress.VMName(), w.progress.dir()
	gone := w.runtime.ShimGone(dir)
	running, err := w.runtime.AwaitStart(ctx, name, dir, gone)
	if err != nil {
		return state.Exit{}, err
	}
	if !running {
		return w.exits.read(exitUnrecorded), nil
	}
	if err := w.gate.ProveRunning(ctx, gone); err != nil {
		return w.stopUnproved(ctx, err)
	}
	w.markRunning()
	return w.follow(ctx, gone, w.gate.ProveBoot)
}

// markRunning: the VM runs. Where there is nothing to do in the guest, so does the
// container.
func (w *worker) markRunning() {
	w.progress.Step, w.progress.Started = state.StepRunning, w.clock.Now()
	p, prepared := w.pod.current(), w.inputs.prepared
	if state.NeedsNoGuestAgent(p) || !state.RunsCommand(p) && len(p.Spec.InitContainers) == 0 && prepared != nil && prepared.Setup == "" {
		w.progress.Begun, w.progress.mainRan = w.progress.Started, true
	}
	first := !w.progress.ran
	w.progress.ran = true
	w.progress.save()
	w.log.Info("VM runs", "machine", w.progress.VMName())
	w.report.showProgress()
	w.report.event(corev1.EventTypeNormal, "Started", "Started VM "+w.progress.VMName())
	if first && state.MissesPodIP(p) {
		w.report.event(corev1.EventTypeNormal, "NoPodIP", state.NoPodIP)
	}
}

// follow takes a VM that runs to the end of the attempt. prove makes the proofs of
// the firewall that are still to come.
func (w *worker) follow(ctx context.Context, gone <-chan struct{}, prove func(context.Context, <-chan struct{}) error) (state.Exit, error) {
	attempt, cancel := context.WithCancelCause(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel(nil)
	prepared, image := w.inputs.prepared, w.progress.Image
	background.Go(func() { w.inputs.refreshVolumes(attempt, prepared, w.evict) })
	background.Go(func() { w.reportStarted(attempt, gone) })
	background.Go(func() {
		if err := prove(attempt, gone); err != nil {
			cancel(err)
		}
	})
	background.Go(func() {
		if err := awaitImageChange(attempt, w.pod, w.report, image); err != nil {
			cancel(err)
		}
	})
	background.Go(func() {
		if err := w.probing.awaitFailure(attempt); err != nil {
			cancel(err)
		}
	})
	e, err := w.awaitExit(attempt, gone)
	var changed *imageChangedError
	var failed *containerFailedError
	switch {
	case err == nil || ctx.Err() != nil:
		return e, err
	case errors.As(err, &changed):
		return w.stopForImage(ctx, changed)
	case errors.As(err, &failed):
		return w.killContainer(ctx, failed)
	}
	return w.stopUnproved(ctx, err)
}

// reportStarted says that macOS allowed the start of a VM.
func (w *worker) reportStarted(ctx context.Context, gone <-chan struct{}) {
	if w.shared.started == nil {
		return
	}
	if over, err := wait.Or(ctx, w.clock, gone, state.StartedAfter); !over && err == nil {
		w.shared.started()
	}
}

// awaitExit runs the Pod's commands in the guest, and waits for the VM where its exit
// is that of the Pod.
func (w *worker) awaitExit(ctx context.Context, gone <-chan struct{}) (state.Exit, error) {
	e, err := w.commands.run(ctx)
	if err != nil {
		return state.Exit{}, err
	}
	if e != nil {
		return *e, nil
	}
	if err := w.runtime.AwaitExit(ctx, w.progress.VMName(), gone); err != nil {
		return state.Exit{}, err
	}
	return w.exits.read(exitUnrecorded), nil
}

// stopUnproved stops a VM for which the guard said no. A VM that was not shown to run
// yet counts as never started; one that exited by itself meanwhile has its own exit.
func (w *worker) stopUnproved(ctx context.Context, why error) (state.Exit, error) {
	var no *firewall.NotProvedError
	if ctx.Err() != nil || !errors.As(why, &no) {
		return state.Exit{}, why
	}
	name := w.progress.VMName()
	own, over := w.exits.read(exitUnrecorded), w.runtime.Exited(ctx, name)
	if !over {
		w.log.Error("VM stopped, as the firewall around it is not proved", "machine", name, "err", why)
		w.report.event(corev1.EventTypeWarning, state.ReasonNotProved, fmt.Sprintf("Stopping VM %s: %v", name, why))
	}
	if err := w.runtime.Stop(ctx, name, w.progress.dir(), killGrace); err != nil {
		return state.Exit{}, err
	}
	switch {
	case over:
		return w.exits.read(exitUnrecorded), nil
	case own.Reason != state.ReasonUnknown:
		return own, nil
	}
	return state.Exit{
		Code: state.CodeKilled, Reason: state.ReasonNotProved, Message: why.Error(), Unstarted: w.progress.Step != state.StepRunning,
		VM: name, Started: w.progress.Started, Finished: w.clock.Now(),
	}, nil
}

// stopForImage stops a VM so that another takes its place, whatever the restart policy
// says. A VM that exited by itself meanwhile has its own exit.
func (w *worker) stopForImage(ctx context.Context, why *imageChangedError) (state.Exit, error) {
	if own := w.exits.read(exitUnrecorded); own.Reason != state.ReasonUnknown {
		return own, nil
	}
	name := w.progress.VMName()
	w.log.Info("VM stopped, as the Pod wants another image", "machine", name)
	w.report.event(corev1.EventTypeNormal, "Killing", why.Error())
	w.exits.replaced = true
	defer func() { w.exits.replaced = false }()
	if err := w.endCommand(ctx); err != nil {
		return state.Exit{}, err
	}
	err := w.runtime.Stop(ctx, name, w.progress.dir(), w.pod.grace(w.life))
	w.pod.countGrace(time.Time{})
	if err != nil {
		return state.Exit{}, err
	}
	e := w.exits.read(exitUnrecorded)
	e.Replaced = true
	return e, nil
}
