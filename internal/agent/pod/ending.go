package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/pod/hook"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// errGraceOver ends the wait for a command.
var errGraceOver = errors.New("the grace period is over")

// ender ends the command of a guest as a kubelet ends a container: its preStop hook,
// then SIGTERM, and the grace period. The guest goes down after that.
type ender struct {
	// life is the Pod's, whose end may say how long the grace is.
	life     context.Context
	pod      *object
	progress *progress
	report   *reporter
	inputs   *podInputs
	runtime  *vmruntime.Runtime
	messages *messages
	clock    clock.Clock
	log      *slog.Logger
}

// endCommand gives the command that runs in the guest its grace. It returns once the
// guest may go down; the error is that of ctx. What goes on around a VM that runs does
// so meanwhile: a proof of the firewall that fails ends it at once.
func (w *worker) endCommand(ctx context.Context) error {
	id := w.ender.runs()
	grace := w.pod.grace(w.life)
	if left, _ := grace(); id == "" || left <= state.OrphanGrace {
		return nil
	}
	w.ender.begin()
	w.shared.inputs.Hold(w.pod.current())
	ending, cancel := context.WithCancelCause(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel(nil)
	prove, gone := w.pendingProofs(), w.runtime.ShimGone(w.progress.dir())
	background.Go(func() {
		if err := prove(ending, gone); err != nil {
			cancel(err)
		}
	})
	prepared := w.inputs.prepared
	background.Go(func() { w.inputs.refreshVolumes(ending, prepared, func(why string) { cancel(errors.New(why)) }) })
	w.ender.end(ending, id, grace)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var no *firewall.NotProvedError
	if err := context.Cause(ending); errors.As(err, &no) {
		e, err := w.stopUnproved(ctx, err)
		if err != nil {
			return err
		}
		w.progress.Record = w.progress.Ended(e)
	}
	return nil
}

// runs is the command of the guest that runs now; empty: none, or none that can be
// told to end.
func (e *ender) runs() string {
	if e.progress.LegacyVM != "" || e.progress.Step != state.StepRunning {
		return ""
	}
	dir := e.progress.dir()
	if alive, err := e.runtime.Shims.Alive(dir); err != nil || !alive {
		return ""
	}
	found, err := state.ProgressOf(state.CommandIDs(e.pod.current(), false), func(id string) (bool, *shim.CommandEnd, error) {
		return e.runtime.Shims.Command(dir, id)
	})
	if err != nil {
		return ""
	}
	return found.CommandToEnd()
}

// begin notes since when the grace of an end counts that has no deletionTimestamp.
func (e *ender) begin() {
	if e.progress.Ending == nil {
		e.progress.Ending = &state.Ending{Since: e.clock.Now(), ContainerOnly: e.life.Err() == nil}
		e.progress.save()
	}
	e.pod.countGrace(e.progress.Ending.Since)
}

// end returns once the command has ended, its grace is over, or it cannot be told.
func (e *ender) end(ctx context.Context, id string, grace vmruntime.Grace) {
	c, _ := state.ContainerOf(e.pod.current(), id)
	if hook := state.PreStop(c); hook != nil && !e.progress.Ending.Hooked {
		e.preStop(ctx, c, *hook, grace)
	}
	ctx, cancel := e.within(ctx, grace, 0)
	defer cancel()
	if !e.progress.Ending.Signaled {
		if err := e.signal(ctx, id); err != nil {
			e.log.Warn("the command was not told to end, its guest is", "command", id, "err", err)
			return
		}
		e.progress.Ending.Signaled = true
		e.progress.save()
		e.log.Info("command told to end", "command", id)
	}
	for {
		ended, err := e.runtime.Shims.Await(ctx, e.progress.dir(), id)
		if err == nil && ended != nil && ended.Outcome == shim.Exited {
			e.messages.fetch(ctx, id)
		}
		var refused *shim.RefusedError
		if err == nil || errors.As(err, &refused) || wait.For(ctx, e.clock, shimPause) != nil {
			return
		}
	}
}

// within ends a context when no more is left of the grace than is reserved, beside what
// the guest takes to go down.
func (e *ender) within(ctx context.Context, grace vmruntime.Grace, reserved time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var counting sync.WaitGroup
	counting.Go(func() {
		for {
			left, changed := grace()
			usable := left - reserved - state.StopMargin(e.pod.wholeGrace(e.life))
			if left <= state.OrphanGrace || usable <= 0 {
				cancel(errGraceOver)
				return
			}
			if _, err := wait.Or(ctx, e.clock, changed, usable); err != nil {
				return
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		counting.Wait()
	}
}

// signal sends SIGTERM, as often as it takes. It fails where it never can be sent.
func (e *ender) signal(ctx context.Context, id string) error {
	for {
		err := e.runtime.Shims.Signal(ctx, e.progress.dir(), id, syscall.SIGTERM)
		var refused *shim.RefusedError
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
			return err
		}
		if alive, aliveErr := e.runtime.Shims.Alive(e.progress.dir()); aliveErr == nil && !alive {
			return err
		}
		if wait.For(ctx, e.clock, shimPause) != nil {
			return err
		}
	}
}

// preStop runs the hook; one that is a command once, however often the agent is restarted
// meanwhile. A hook that fails ends nothing.
func (e *ender) preStop(ctx context.Context, c corev1.Container, hook corev1.LifecycleHandler, grace vmruntime.Grace) {
	within, cancel := e.within(ctx, grace, state.TermLeast)
	defer cancel()
	err := e.runHook(within, c, hook)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		e.log.Warn("preStop hook failed", "container", c.Name, "err", err)
		e.report.event(corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed: "+err.Error())
	}
	e.progress.Ending.Hooked = true
	e.progress.save()
}

func (e *ender) runHook(ctx context.Context, c corev1.Container, h corev1.LifecycleHandler) error {
	switch {
	case h.Sleep != nil:
		return wait.For(ctx, e.clock, time.Duration(h.Sleep.Seconds)*time.Second-e.clock.Since(e.progress.Ending.Since))
	case h.Exec != nil:
		return e.runHookCommand(ctx, c, h.Exec.Command)
	}
	r := hook.Runner{
		Container: c, Clock: e.clock, FellBack: e.report.hookFellBack("preStop"),
		Guest: guestAccess{shims: e.runtime.Shims, dir: e.progress.dir(), pod: e.pod, inputs: e.inputs, container: c.Name},
	}
	return r.Run(ctx, &h)
}

func (e *ender) runHookCommand(ctx context.Context, c corev1.Container, argv []string) error {
	given, err := e.inputs.commandOf(ctx, e.pod.current(), c.Name)
	if err != nil {
		return err
	}
	dir := e.progress.dir()
	run := shim.GuestRun{ID: state.PreStopID, Command: vm.GuestCommand{Argv: argv, Env: given.Env, Dir: given.Dir}}
	if err := e.runtime.Shims.Run(ctx, dir, run); err != nil {
		return err
	}
	ended, err := e.runtime.Shims.Await(ctx, dir, state.PreStopID)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case ended == nil:
		return errors.New("nobody knows how it ended")
	case state.Succeeded(ended):
		return nil
	}
	return errors.New(cmp.Or(ended.Message, fmt.Sprintf("exit code %d", ended.Code)))
}
