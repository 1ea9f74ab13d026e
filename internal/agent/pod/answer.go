package pod

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// answerTimeout is how long a guest that is the container may take to answer before it
// counts as one without a guest agent, which is ready as soon as it runs. A boot takes a
// quarter of it.
const answerTimeout = 2 * time.Minute

// awaitAnswerInBackground makes a container that is the VM ready once its guest agent
// answers: the guest has booted.
func (c *guestCommands) awaitAnswerInBackground(ctx context.Context) {
	main, id := c.wholeVM()
	dir := c.progress.dir()
	timeout := max(0, answerTimeout-c.clock.Since(c.progress.Started))
	if c.report.probed.begin(main, id).Ready {
		return
	}
	c.background.Go(func() {
		c.awaitAnswer(ctx, dir, timeout)
		if ctx.Err() != nil {
			return
		}
		c.markAnswered(main, id)
		c.report.show(nil)
	})
}

// awaitAnswer returns once the guest agent has run a command, or is not to be expected.
func (c *guestCommands) awaitAnswer(ctx context.Context, dir string, timeout time.Duration) {
	run := shim.GuestRun{ID: state.AnswerID, Command: vm.GuestCommand{Argv: []string{"/usr/bin/true"}}, Timeout: timeout}
	err := c.runtime.Shims.Run(ctx, dir, run)
	var ended *shim.CommandEnd
	if err == nil {
		ended, err = c.runtime.Shims.Await(ctx, dir, state.AnswerID)
	}
	if ctx.Err() == nil && (err != nil || ended == nil || ended.Outcome == shim.Unreachable) {
		c.log.Info("no guest agent answers, the VM counts as ready", "err", err)
	}
}

// markAnswered makes the container that is the VM ready.
func (c *guestCommands) markAnswered(main corev1.Container, id string) {
	c.report.probed.set(main, id, state.Probed{Started: true, Ready: true})
}

// wholeVM is the container that is the VM, with its ID.
func (c *guestCommands) wholeVM() (corev1.Container, string) {
	p := c.pod.current()
	return p.Spec.Containers[0], state.ContainerID(p, c.progress.Record, state.Place{})
}
