package pod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/volume"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// guestPatience is how long a guest agent may take to answer, from the machine's
	// start; guestPatienceLeft is what one gets at least, whose wait an agent before
	// this one began.
	guestPatience     = 5 * time.Minute
	guestPatienceLeft = 10 * time.Second
	// shimPause is how long the shim is left alone after it failed.
	shimPause = time.Second
	// endingPatience is how long after its agent a machine may end and still be what
	// ended the command.
	endingPatience = 10 * time.Second
	// maxMountMessage in bytes goes into an event.
	maxMountMessage = 512
)

// inside has run what the Pod wants run in its guest, one command after the other,
// and returns the end of the attempt: nil where that is for the machine to say.
func (w *worker) inside(ctx context.Context) (*end, error) {
	p := w.current()
	if w.rec.Former != "" {
		return nil, nil // its guest runs what its image says
	}
	if needsNothing(p) {
		return nil, w.mountTokenBeside(ctx)
	}
	if !commandMode(p) && !w.rec.Begun.IsZero() {
		return nil, nil // all of it is done
	}
	setup, err := w.needsSetup(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range commandIDs(p, setup) {
		e, err := w.command(ctx, p, id)
		if e != nil || err != nil {
			return e, err
		}
	}
	if !commandMode(p) {
		w.begin(mainID, w.clock.Now())
	}
	return nil, nil
}

// needsSetup reports whether the guest must be told of volumes, or was.
func (w *worker) needsSetup(ctx context.Context) (bool, error) {
	if w.given != nil {
		return w.given.Setup != "", nil
	}
	begun, ended, err := w.runs.Command(w.dir(), setupID)
	if err != nil {
		w.log.Warn("the record of a command cannot be read", "err", err)
	}
	if begun || ended != nil {
		return true, nil
	}
	for _, id := range commandIDs(w.current(), false) {
		if begun, _, _ := w.runs.Command(w.dir(), id); begun {
			return false, nil // it went before
		}
	}
	if err := w.prepare(ctx); err != nil {
		return false, err
	}
	return w.given.Setup != "", nil
}

// command runs one command in the guest, unless it ran already, and waits for its
// end. It returns the end of the attempt where this is it.
func (w *worker) command(ctx context.Context, p *corev1.Pod, id string) (*end, error) {
	begun, ended, err := w.runs.Command(w.dir(), id)
	if err != nil {
		return w.lostIn(p, id, fmt.Sprintf("the record of its command cannot be read: %v", err)), nil
	}
	if !begun {
		if w.begunBefore(p, id) {
			return w.lostIn(p, id, "the record of its command is gone"), nil
		}
		if e, err := w.run(ctx, p, id); e != nil || err != nil {
			return e, err
		}
	}
	if ended == nil || !begun {
		if ended, err = w.await(ctx, id); err != nil {
			return nil, err
		}
	}
	return w.judge(ctx, p, id, ended)
}

// begunBefore: the status shows a begin of which there is no record.
func (w *worker) begunBefore(p *corev1.Pod, id string) bool {
	if id == setupID {
		return false
	}
	_, i := containerOf(p, id)
	return !w.container(i).Begun.IsZero()
}

func (w *worker) container(i int) *lived {
	if i < 0 || i >= len(w.rec.Inits) {
		return &w.rec.lived
	}
	return &w.rec.Inits[i]
}

// run gives the command to the shim. It returns nil once the command began or
// ended.
func (w *worker) run(ctx context.Context, p *corev1.Pod, id string) (*end, error) {
	if w.given == nil {
		if err := w.prepare(ctx); err != nil {
			return nil, err
		}
	}
	for {
		err := w.runs.Run(ctx, w.dir(), w.guestRun(p, id))
		var refused *shim.RefusedError
		switch {
		case err == nil:
			return nil, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, &refused) && refused.Code != shim.RefusedRecord:
			return w.refusedIn(p, id, refused), nil
		case errors.Is(err, shim.ErrNoShim):
			if alive, aliveErr := w.runs.Alive(w.dir()); aliveErr == nil && !alive {
				return w.withoutShim(ctx, p, id)
			}
		}
		w.log.Warn("a command was not taken, asking again", "command", id, "err", err)
		if !wait(ctx, w.clock, shimPause) {
			return nil, context.Cause(ctx)
		}
	}
}

// withoutShim: where the machine ended, its exit says why. One that runs on without
// a shim can be told nothing.
func (w *worker) withoutShim(ctx context.Context, p *corev1.Pod, id string) (*end, error) {
	over, err := w.machineEnds(ctx)
	if err != nil {
		return nil, err
	}
	if over {
		e := w.readEnd("the VM ended and its exit was not recorded")
		return &e, nil
	}
	return w.lostIn(p, id, "the process that runs its commands is gone"), nil
}

func (w *worker) guestRun(p *corev1.Pod, id string) shim.GuestRun {
	r := shim.GuestRun{ID: id, Log: id + ".log", Timeout: guestPatience}
	if !w.rec.Started.IsZero() {
		r.Timeout = min(guestPatience, max(guestPatienceLeft, guestPatience-w.clock.Since(w.rec.Started)))
	}
	if id == setupID {
		r.Command = vm.GuestCommand{Argv: []string{"/bin/sh", "-c", w.given.Setup}}
		return r
	}
	c, _ := containerOf(p, id)
	r.Command = w.given.Commands[c.Name]
	return r
}

// await shows that the command runs and waits for its end; nil: it is lost.
func (w *worker) await(ctx context.Context, id string) (*shim.CommandEnd, error) {
	if begun, _, _ := w.runs.Command(w.dir(), id); begun && id != setupID {
		at := w.runs.Begun(w.dir(), id)
		if at.IsZero() {
			at = w.clock.Now()
		}
		w.begin(id, at)
	}
	for {
		ended, err := w.runs.Await(ctx, w.dir(), id)
		var refused *shim.RefusedError
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			return ended, nil
		case errors.As(err, &refused):
			return nil, nil
		}
		w.log.Warn("waiting for a command failed, trying again", "command", id, "err", err)
		if !wait(ctx, w.clock, shimPause) {
			return nil, context.Cause(ctx)
		}
	}
}

// begin notes that a container runs.
func (w *worker) begin(id string, at time.Time) {
	c, i := containerOf(w.current(), id)
	l := w.container(i)
	if !l.Begun.IsZero() {
		return
	}
	l.Begun = at
	w.ran = true
	w.began = w.began || i < 0
	w.save()
	w.showNow()
	if id != mainID || commandMode(w.current()) {
		w.event(corev1.EventTypeNormal, "Started", "Started container "+c.Name)
	}
	w.log.Info("container runs", "container", c.Name)
}

// judge says what the end of a command means for the attempt: nil, if it goes on.
func (w *worker) judge(ctx context.Context, p *corev1.Pod, id string, ended *shim.CommandEnd) (*end, error) {
	if succeeded(ended) && id != mainID {
		w.doneInit(p, id, *ended)
		return nil, nil
	}
	if ended == nil || ended.Outcome == shim.Lost || ended.Outcome == shim.Unreachable {
		over, err := w.machineEnds(ctx)
		if err != nil {
			return nil, err
		}
		if over {
			e := w.readEnd("the VM ended and its exit was not recorded")
			return &e, nil
		}
		if ended == nil || ended.Outcome == shim.Lost {
			return w.lostIn(p, id, firstOf(lostMessage(ended), "the process that ran its command is gone")), nil
		}
	}
	e := endOfCommand(p, w.rec, *ended)
	switch {
	case e.Reason == reasonNoAgent:
		e.Message = w.agentMissing(p, id)
		w.event(corev1.EventTypeWarning, reasonNoAgent, e.Message)
	case id == setupID:
		e.Message = firstOf(mountMessage(w.dir()), e.Message)
		w.event(corev1.EventTypeWarning, "FailedMount", e.Message)
	}
	return &e, nil
}

// machineEnds reports whether a machine whose command was cut off is ending, too. A
// guest that goes down takes its agent with it first.
func (w *worker) machineEnds(ctx context.Context) (bool, error) {
	alive, err := w.runs.Alive(w.dir())
	if err == nil && alive {
		if over, err := w.pause(ctx, w.shimGone(w.dir()), endingPatience); over || err != nil {
			return over, err
		}
		return false, nil
	}
	m, err := w.driver.Machine(ctx, w.rec.machine())
	return errors.Is(err, vm.ErrNotFound) || err == nil && !m.Running, nil
}

// agentMissing says what was waited for and what to do.
func (w *worker) agentMissing(p *corev1.Pod, id string) string {
	return fmt.Sprintf("no guest agent answered in VM %s within %s of its start, and the Pod needs one for %s: "+
		"use an image in which tart-guest-agent runs from boot on",
		w.rec.machine(), w.clock.Since(w.rec.Started).Round(time.Second), needOf(p, id))
}

func lostMessage(e *shim.CommandEnd) string {
	if e == nil {
		return ""
	}
	return e.Message
}

func needOf(p *corev1.Pod, id string) string {
	if id == setupID && slices.ContainsFunc(mountsOf(p), func(m corev1.VolumeMount) bool { return !volume.Injected(m) }) {
		return "its volumes"
	}
	c, _ := containerOf(p, id)
	return "the command of container " + c.Name
}

// doneInit notes the end of an init container.
func (w *worker) doneInit(p *corev1.Pod, id string, ended shim.CommandEnd) {
	_, i := containerOf(p, id)
	if id == setupID || i < 0 || w.rec.Inits[i].End != nil {
		return
	}
	e := endOfCommand(p, w.rec, ended)
	w.rec.Inits[i].Begun, w.rec.Inits[i].End = ended.Begun, &e
	w.save()
	w.showNow()
}

// lostIn is the end of a command of which nobody knows more. It is never run again
// in this attempt.
func (w *worker) lostIn(p *corev1.Pod, id, why string) *end {
	e := lost(w.rec, why, w.clock.Now()).of(p, w.rec, id)
	return &e
}

// refusedIn is the end of a command that no shim can run.
func (w *worker) refusedIn(p *corev1.Pod, id string, why *shim.RefusedError) *end {
	now := w.clock.Now()
	e := endOfCommand(p, w.rec, shim.CommandEnd{ID: id, Ended: now, Outcome: shim.NotExecuted, Message: why.Message})
	return &e
}

// mountMessage is what the setup said last, which names the path that is in the way.
func mountMessage(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, setupID+".log"))
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

// needsNothing: the machine is the container, and nothing but what admission adds to
// every Pod wants to be mounted in it.
func needsNothing(p *corev1.Pod) bool {
	mounts := mountsOf(p)
	return !commandMode(p) && len(p.Spec.InitContainers) == 0 &&
		len(mounts) > 0 && !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return !volume.Injected(m) })
}

func mountsOf(p *corev1.Pod) []corev1.VolumeMount {
	var mounts []corev1.VolumeMount
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		mounts = append(mounts, c.VolumeMounts...)
	}
	return mounts
}

// mountTokenBeside makes the token visible in a guest that may have no agent. A
// machine that asked for nothing does not wait for that, nor fail.
func (w *worker) mountTokenBeside(ctx context.Context) error {
	w.begin(mainID, w.rec.Started)
	p := w.current()
	if begun, ended, err := w.runs.Command(w.dir(), setupID); err != nil || begun || ended != nil {
		return nil
	}
	if w.given == nil {
		if err := w.prepare(ctx); err != nil {
			return err
		}
	}
	if w.given.Setup == "" {
		return nil
	}
	run, dir := w.guestRun(p, setupID), w.dir()
	w.beside.Go(func() {
		if err := w.runs.Run(ctx, dir, run); err != nil {
			return
		}
		ended, err := w.runs.Await(ctx, dir, setupID)
		switch {
		case err != nil || ended == nil || succeeded(ended):
		case ended.Outcome == shim.Unreachable:
			w.event(corev1.EventTypeNormal, "TokenNotMounted", "The service account's token is not mounted, as no guest agent answers in the VM")
		case ended.Outcome != shim.Lost:
			w.event(corev1.EventTypeWarning, "TokenNotMounted", "The service account's token is not mounted: "+firstOf(mountMessage(dir), ended.Message))
		}
	})
	return nil
}
