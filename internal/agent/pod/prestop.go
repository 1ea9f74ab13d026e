package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/hook"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// preStop runs the hook; one that is a command once, however often the agent is restarted
// meanwhile. A hook that fails ends nothing, and one whose container has ended is given up.
func (e *ender) preStop(ctx context.Context, ending *commandEnding, c corev1.Container, hook corev1.LifecycleHandler) {
	within, cancel := e.within(ctx, ending, 0)
	defer cancel()
	hooking, stop := context.WithCancelCause(within)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop(nil)
	watching.Go(func() {
		if _, err := e.runtime.Shims.Await(hooking, e.progress.dir(), ending.id); err == nil {
			stop(errCommandEnded)
		}
	})
	err := e.runHook(hooking, ending, c, hook)
	if ctx.Err() != nil {
		return
	}
	switch {
	case err != nil && errors.Is(context.Cause(hooking), errCommandEnded):
		e.log.Info("preStop hook given up, its container has ended", "container", c.Name) // maybe by the hook
	case err != nil:
		e.log.Warn("preStop hook failed", "container", c.Name, "err", err)
		e.report.event(corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed: "+err.Error())
	}
	ending.told.Hooked = true
	ending.note()
}

func (e *ender) runHook(ctx context.Context, ending *commandEnding, c corev1.Container, h corev1.LifecycleHandler) error {
	switch {
	case h.Sleep != nil:
		return wait.For(ctx, e.clock, time.Duration(h.Sleep.Seconds)*time.Second-e.clock.Since(ending.since))
	case h.Exec != nil:
		return e.runHookCommand(ctx, state.PreStopOf(ending.id), c, h.Exec.Command)
	}
	r := hook.Runner{
		Container: c, Clock: e.clock, FellBack: e.report.hookFellBack("preStop"),
		Guest: guestAccess{shims: e.runtime.Shims, dir: e.progress.dir(), pod: e.pod, inputs: e.inputs, container: c.Name},
	}
	return r.Run(ctx, &h)
}

func (e *ender) runHookCommand(ctx context.Context, id string, c corev1.Container, argv []string) error {
	if err := e.beginHookCommand(ctx, id, c, argv); err != nil {
		return err
	}
	ended, err := e.runtime.Shims.Await(ctx, e.progress.dir(), id)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case ended == nil:
		return errors.New("nobody knows how it ended")
	case state.Succeeded(ended):
		return nil
	case ended.Outcome == shim.NotExecuted:
		// The command of a hook is not expanded: the Pod shows it.
		return fmt.Errorf("%q: %s", argv[0], ended.Message)
	}
	return errors.New(cmp.Or(ended.Message, fmt.Sprintf("exit code %d", ended.Code)))
}

// beginHookCommand has the shim run a hook, unless it did already: what the hook was given then
// may be gone by now.
func (e *ender) beginHookCommand(ctx context.Context, id string, c corev1.Container, argv []string) error {
	dir := e.progress.dir()
	if begun, _, err := e.runtime.Shims.Command(dir, id); begun || err != nil {
		return err
	}
	given, err := e.inputs.commandOf(ctx, e.pod.current(), c.Name)
	if err != nil {
		return err
	}
	return e.runtime.Shims.Run(ctx, dir, shim.GuestRun{ID: id, Command: vm.GuestCommand{Argv: argv, Env: given.Env, Dir: given.Dir}})
}

// endHook kills a hook that outlives its container, as the end of a container does with all in
// it: the next run would have it beside itself. Where there is none, or it has ended, nothing
// is told. ctx may have ended with the container: that leaves no hook alone.
func (e *ender) endHook(ctx context.Context, id, hookID string) {
	if e.isRunning(id) || !e.isRunning(hookID) {
		return
	}
	within, cancel := e.withinKill(context.WithoutCancel(ctx))
	defer cancel()
	if err := e.signal(within, hookID, syscall.SIGKILL); err != nil {
		e.log.Warn("a hook outlives its container", "hook", hookID, "err", err)
	}
}
