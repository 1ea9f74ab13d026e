package pod

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/hook"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// errCommandEnded ends the hook of a command that has ended.
var errCommandEnded = errors.New("the container ended before its hook")

// postStart runs the hook of a container whose command has begun: it counts as running
// once the hook has succeeded, and is killed where the hook fails. A hook that is a command
// runs once, however often the agent is restarted meanwhile.
func (c *guestCommands) postStart(ctx context.Context, id string) error {
	p := c.pod.current()
	container, at := state.ContainerOf(p, id)
	if container.Lifecycle == nil || container.Lifecycle.PostStart == nil || !c.progress.begun(at).IsZero() {
		return nil
	}
	c.report.showWaiting(state.InitialReason(p), "its postStart hook runs")
	dir := c.progress.dir()
	hooking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.background.Go(func() {
		if _, err := c.runtime.Shims.Await(hooking, dir, id); err == nil {
			cancel(errCommandEnded)
		}
	})
	err := c.runPostStart(hooking, id, container)
	if errors.Is(context.Cause(hooking), errCommandEnded) {
		c.ender.endHook(ctx, id, state.PostStartOf(id))
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return nil
	}
	c.log.Warn("postStart hook failed", "container", container.Name, "err", err)
	// What the hook was answered is not for the events.
	c.report.event(corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	if errors.Is(context.Cause(hooking), errCommandEnded) {
		return nil // it has an end of its own
	}
	return &containerFailedError{message: "FailedPostStartHook", grace: state.KillGrace(p, nil)}
}

func (c *guestCommands) runPostStart(ctx context.Context, id string, container corev1.Container) error {
	h := container.Lifecycle.PostStart
	if h.Exec != nil {
		return c.ender.runHookCommand(ctx, state.PostStartOf(id), container, h.Exec.Command)
	}
	r := hook.Runner{
		Container: container, Clock: c.clock, FellBack: c.report.hookFellBack("postStart"),
		Guest: guestAccess{shims: c.runtime.Shims, dir: c.progress.dir(), pod: c.pod, inputs: c.inputs, container: container.Name},
	}
	return r.Run(ctx, h)
}
