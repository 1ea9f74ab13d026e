package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// guestTimeout is how long a guest agent may take to answer, from the VM's start;
	// guestTimeoutLeast is what is left at least where an earlier agent began to wait.
	guestTimeout      = 5 * time.Minute
	guestTimeoutLeast = 10 * time.Second
	// shimPause is how long the shim is left alone after it failed.
	shimPause = time.Second
	// maxMountMessage in bytes goes into an event.
	maxMountMessage = 512
)

// guestCommands runs the commands of an attempt in its guest: the mounts, the init
// containers and the main container, one after the other. Containers that run beside one
// another are in multicontainer.go.
type guestCommands struct {
	pod        *object
	progress   *progress
	report     *reporter
	inputs     *podInputs
	runtime    *vmruntime.Runtime
	exits      *exitReader
	messages   *messages
	probing    *probing
	ender      *ender
	background *sync.WaitGroup
	clock      clock.Clock
	log        *slog.Logger
}

// run returns the exit of the attempt: nil where that is the VM's.
func (c *guestCommands) run(ctx context.Context) (*state.Exit, error) {
	p := c.pod.current()
	if c.progress.LegacyVM != "" {
		c.markAnswered(c.wholeVM())
		return nil, nil // its guest runs what its image says
	}
	if state.NeedsNoGuestAgent(p) {
		c.awaitAnswerInBackground(ctx)
		return nil, c.mountTokenInBackground(ctx)
	}
	if !state.RunsCommand(p) && !c.progress.Begun.IsZero() {
		c.awaitAnswerInBackground(ctx)
		return nil, nil // all of it is done
	}
	setup, err := c.needsSetup(ctx)
	if err != nil {
		return nil, err
	}
	if state.Several(p) {
		return c.runMultiContainer(ctx, p, setup)
	}
	ids := state.CommandIDs(p, setup)
	for _, id := range ids {
		e, err := c.runOne(ctx, p, id)
		if e != nil || err != nil {
			return e, err
		}
	}
	if !state.RunsCommand(p) {
		if len(ids) > 0 {
			c.markAnswered(c.wholeVM())
		} else {
			c.awaitAnswerInBackground(ctx) // the agent before this one went before the VM was seen running
		}
		c.markBegun(state.MainID, c.clock.Now())
	}
	return nil, nil
}

// record reads what the shim has written down of a command.
func (c *guestCommands) record(id string) (begun bool, ended *shim.CommandEnd, err error) {
	return c.runtime.Shims.Command(c.progress.dir(), id)
}

// needsSetup reports whether the guest must be told of volumes, or was.
func (c *guestCommands) needsSetup(ctx context.Context) (bool, error) {
	if c.inputs.prepared == nil {
		begun, ended, err := c.record(state.SetupID)
		if err != nil {
			c.log.Warn("the record of a command cannot be read", "err", err)
		}
		if begun || ended != nil {
			return true, nil
		}
		for _, id := range state.CommandIDs(c.pod.current(), false) {
			if begun, _, _ := c.record(id); begun {
				return false, nil // it went before
			}
		}
	}
	prepared, err := c.inputs.ensure(ctx)
	return err == nil && prepared.Setup != "", err
}

// runOne runs one command in the guest, unless it ran already, and waits for its end.
// It returns the exit of the attempt where this is it.
func (c *guestCommands) runOne(ctx context.Context, p *corev1.Pod, id string) (*state.Exit, error) {
	ended, err := c.begin(ctx, p, id)
	if ended == nil && err == nil {
		if err = c.markRuns(ctx, id, c.probing.fail, func() {}); err == nil {
			ended, err = c.await(ctx, id)
		}
	}
	if err != nil {
		return nil, err
	}
	return c.ended(ctx, p, id, ended)
}

// begin has the shim run one command in the guest, unless it did already. It returns the
// end where there is one; one that is Lost where nobody knows of it.
func (c *guestCommands) begin(ctx context.Context, p *corev1.Pod, id string) (*shim.CommandEnd, error) {
	begun, ended, err := c.record(id)
	switch {
	case err != nil:
		return lostCommand(id, fmt.Sprintf("the record of its command cannot be read: %v", err)), nil
	case begun:
		return ended, nil
	case c.shownBegun(p, id):
		return lostCommand(id, "the record of its command is gone"), nil
	}
	return c.send(ctx, p, id)
}

// lostCommand is the end of a command of which nobody knows more.
func lostCommand(id, why string) *shim.CommandEnd {
	return &shim.CommandEnd{ID: id, Outcome: shim.Lost, Message: why}
}

// shownBegun: the status shows a begin of which there is no record.
func (c *guestCommands) shownBegun(p *corev1.Pod, id string) bool {
	if id == state.SetupID {
		return false
	}
	_, at := state.ContainerOf(p, id)
	return !c.progress.begun(at).IsZero()
}

// send gives the command to the shim. It returns nil once the command began or ended, or
// the end of one that no shim takes.
func (c *guestCommands) send(ctx context.Context, p *corev1.Pod, id string) (*shim.CommandEnd, error) {
	prepared, err := c.inputs.ensure(ctx)
	if err != nil {
		return nil, err
	}
	dir := c.progress.dir()
	for told := false; ; {
		err := c.runtime.Shims.Run(ctx, dir, c.guestRun(p, prepared, id))
		var refused *shim.RefusedError
		switch {
		case err == nil:
			return c.notExecuted(id), nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, &refused) && refused.Code != shim.RefusedRecord:
			// No shim can run it.
			return &shim.CommandEnd{ID: id, Ended: c.clock.Now(), Outcome: shim.NotExecuted, Message: refused.Message}, nil
		case refused != nil && !told:
			told = true
			c.report.unwritten(refused)
		case errors.Is(err, shim.ErrNoShim):
			if alive, aliveErr := c.runtime.Shims.Alive(dir); aliveErr == nil && !alive {
				// A VM that runs on without a shim can be told nothing.
				return lostCommand(id, "the process that runs its commands is gone"), nil
			}
		}
		c.log.Warn("a command was not taken, asking again", "command", id, "err", err)
		if err := wait.For(ctx, c.clock, shimPause); err != nil {
			return nil, err
		}
	}
}

// notExecuted is the end of a command that the guest could not start: it never ran, whatever
// its record says of a begin. Nil for others.
func (c *guestCommands) notExecuted(id string) *shim.CommandEnd {
	if _, ended, err := c.record(id); err == nil && ended != nil && ended.Outcome == shim.NotExecuted {
		return ended
	}
	return nil
}

func (c *guestCommands) guestRun(p *corev1.Pod, prepared *Prepared, id string) shim.GuestRun {
	r := shim.GuestRun{ID: id, Log: id + ".log", Timeout: guestTimeout}
	if started := c.progress.Started; !started.IsZero() {
		r.Timeout = min(guestTimeout, max(guestTimeoutLeast, guestTimeout-c.clock.Since(started)))
	}
	if id == state.SetupID {
		r.Command = vm.GuestCommand{Argv: []string{"/bin/sh", "-c", prepared.Setup}}
		return r
	}
	container, at := state.ContainerOf(p, id)
	r.Command = prepared.Commands[container.Name]
	// What is left of it would run beside its next run, in the same guest. Init containers may leave daemons.
	r.Command.KillGroup = state.Several(p) && (!at.Init || at.IsSidecar(p))
	r.Stdin, r.StdinOnce = container.Stdin, container.StdinOnce
	return r
}

// markRuns shows that a command runs that has begun, once its postStart hook is done, and has
// it probed: fail is told that it is to be killed, started that its startup probe has
// succeeded.
func (c *guestCommands) markRuns(ctx context.Context, id string, fail func(*containerFailedError), started func()) error {
	if begun, _, _ := c.record(id); !begun || id == state.SetupID {
		return nil
	}
	at := c.runtime.Shims.Begun(c.progress.dir(), id)
	if at.IsZero() {
		at = c.clock.Now()
	}
	if err := c.postStart(ctx, id); err != nil {
		return err
	}
	c.markBegun(id, at)
	c.probing.begin(id, at, fail, started)
	return nil
}

// await waits for the end of a command; nil: it is lost.
func (c *guestCommands) await(ctx context.Context, id string) (*shim.CommandEnd, error) {
	shims, dir := c.runtime.Shims, c.progress.dir()
	for {
		ended, err := shims.Await(ctx, dir, id)
		var refused *shim.RefusedError
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			return ended, nil
		case errors.As(err, &refused):
			return nil, nil
		}
		c.log.Warn("waiting for a command failed, trying again", "command", id, "err", err)
		if err := wait.For(ctx, c.clock, shimPause); err != nil {
			return nil, err
		}
	}
}

// markBegun notes that a container runs.
func (c *guestCommands) markBegun(id string, at time.Time) {
	p := c.pod.current()
	container, place := state.ContainerOf(p, id)
	if !c.progress.begun(place).IsZero() {
		return
	}
	c.progress.change(func(r *state.Record) {
		r.Container(place).Begun = at
		c.progress.ran = true
		c.progress.mainRan = c.progress.mainRan || r.MainsRan(p)
	})
	c.progress.save()
	c.report.showProgress()
	if id != state.MainID || state.RunsCommand(p) {
		c.report.containerEvent(id, corev1.EventTypeNormal, "Started", "Started container "+container.Name)
	}
	c.log.Info("container runs", "container", container.Name)
}

// ended says what the end of a command means for the attempt: nil, if it goes on.
func (c *guestCommands) ended(ctx context.Context, p *corev1.Pod, id string, ended *shim.CommandEnd) (*state.Exit, error) {
	if ended != nil && ended.Outcome == shim.Exited && id != state.SetupID {
		c.messages.fetch(ctx, id)
	}
	if state.Succeeded(ended) && id != state.MainID {
		c.initEnded(p, id, *ended)
		return nil, nil
	}
	if ended == nil || ended.Outcome == shim.Lost {
		message := ""
		if ended != nil {
			message = ended.Message
		}
		return c.exitOrLost(ctx, p, id, cmp.Or(message, "the process that ran its command is gone"))
	}
	if ended.Outcome == shim.Unreachable {
		if e, err := c.vmExit(ctx); e != nil || err != nil {
			return e, err
		}
	}
	e := state.CommandExit(p, c.progress.record(), *ended)
	c.messages.add(&e)
	switch {
	case e.Reason == state.ReasonNoAgent:
		e.Message = c.noAgentMessage(p, id)
		c.report.event(corev1.EventTypeWarning, state.ReasonNoAgent, e.Message)
	case id == state.SetupID:
		e.Message = cmp.Or(mountMessage(c.progress.dir()), e.Message)
		c.report.event(corev1.EventTypeWarning, "FailedMount", e.Message)
	}
	return &e, nil
}

// exitOrLost is the exit of the VM where that is what cut the command off. Otherwise
// nobody knows how the command ended, and it is never run again in this attempt.
func (c *guestCommands) exitOrLost(ctx context.Context, p *corev1.Pod, id, why string) (*state.Exit, error) {
	if e, err := c.vmExit(ctx); e != nil || err != nil {
		return e, err
	}
	e := state.LostCommand(p, c.progress.Record, id, why, c.clock.Now())
	return &e, nil
}

// vmExit is the exit of a VM that is ending; nil where it runs on.
func (c *guestCommands) vmExit(ctx context.Context) (*state.Exit, error) {
	over, err := c.runtime.Exits(ctx, c.progress.VMName(), c.progress.dir())
	if err != nil || !over {
		return nil, err
	}
	e := c.exits.read(exitUnrecorded)
	return &e, nil
}

// noAgentMessage says what was waited for and what to do.
func (c *guestCommands) noAgentMessage(p *corev1.Pod, id string) string {
	return fmt.Sprintf("no guest agent answered in VM %s within %s of its start, and the Pod needs one for %s: "+
		"use an image in which tart-guest-agent runs from boot on",
		c.progress.VMName(), c.clock.Since(c.progress.Started).Round(time.Second), state.GuestAgentNeed(p, id))
}

// initEnded notes the end of an init container.
func (c *guestCommands) initEnded(p *corev1.Pod, id string, ended shim.CommandEnd) {
	_, at := state.ContainerOf(p, id)
	r := c.progress.record()
	if id == state.SetupID || !at.Init || r.Container(at).Exit != nil {
		return
	}
	e := state.CommandExit(p, r, ended)
	c.messages.add(&e)
	c.progress.change(func(r *state.Record) { r.Container(at).Begun, r.Container(at).Exit = ended.Begun, &e })
	c.progress.save()
	c.report.showProgress()
}

// mountMessage is what the setup said last, which names the path that is in the way.
func mountMessage(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, state.SetupID+".log"))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	// <time> <stream> <tag> <text>
	fields := strings.SplitN(lines[len(lines)-1], " ", 4)
	if len(fields) < 4 {
		return ""
	}
	return fields[3][:min(len(fields[3]), maxMountMessage)]
}

// mountTokenInBackground makes the token visible in a guest that may have no agent. A
// VM that asked for nothing does not wait for that, nor fail.
func (c *guestCommands) mountTokenInBackground(ctx context.Context) error {
	c.markBegun(state.MainID, c.progress.Started)
	p := c.pod.current()
	if begun, ended, err := c.record(state.SetupID); err != nil || begun || ended != nil {
		return nil
	}
	prepared, err := c.inputs.ensure(ctx)
	if err != nil || prepared.Setup == "" {
		return err
	}
	run, dir := c.guestRun(p, prepared, state.SetupID), c.progress.dir()
	c.background.Go(func() { c.mountToken(ctx, dir, run) })
	return nil
}

func (c *guestCommands) mountToken(ctx context.Context, dir string, run shim.GuestRun) {
	shims := c.runtime.Shims
	if err := shims.Run(ctx, dir, run); err != nil {
		return
	}
	ended, err := shims.Await(ctx, dir, state.SetupID)
	switch {
	case err != nil || ended == nil || state.Succeeded(ended):
	case ended.Outcome == shim.Unreachable:
		c.report.event(corev1.EventTypeNormal, "TokenNotMounted", "The service account's token is not mounted, as no guest agent answers in the VM")
	case ended.Outcome != shim.Lost:
		c.report.event(corev1.EventTypeWarning, "TokenNotMounted", "The service account's token is not mounted: "+cmp.Or(mountMessage(dir), ended.Message))
	}
}
