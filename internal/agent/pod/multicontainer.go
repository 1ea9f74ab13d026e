package pod

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/shim"
)

// commandLostError ends the attempt of containers that run beside one another: no shim or no
// guest agent is left for the command, or nobody knows how it ended.
type commandLostError struct {
	id    string
	ended *shim.CommandEnd
}

func (e *commandLostError) Error() string { return "command " + e.id + " is lost" }

// errMainsEnded ends the sidecars of a Pod whose other containers have ended.
var errMainsEnded = errors.New("all containers but the sidecars have ended")

// multiContainer are the containers of one attempt that run beside one another, each in a
// goroutine of its own.
type multiContainer struct {
	*guestCommands
	p *corev1.Pod
	// ctx ends with the attempt, by stop.
	ctx  context.Context
	stop context.CancelCauseFunc
	live sync.WaitGroup
}

// runMultiContainer runs the containers of a Pod that has several: setup and init containers one
// after the other, each sidecar until it has started, then all others at once. It returns the
// exit of the attempt: that of its containers, once all but the sidecars have ended for good.
func (c *guestCommands) runMultiContainer(ctx context.Context, p *corev1.Pod, setup bool) (*state.Exit, error) {
	m := &multiContainer{guestCommands: c, p: p}
	m.ctx, m.stop = context.WithCancelCause(ctx)
	e, err := m.run(setup)
	m.stop(errMainsEnded)
	m.live.Wait()
	var lost *commandLostError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(context.Cause(m.ctx), &lost):
		return c.ended(ctx, p, lost.id, lost.ended)
	case err != nil:
		return nil, err
	}
	if err := c.ender.endSidecars(ctx, p); err != nil {
		return nil, err
	}
	if e != nil {
		c.exits.readMultiContainer(p) // the sidecars have ends of their own
		return e, nil
	}
	decided := c.exits.read(exitUnrecorded)
	return &decided, nil
}

// run returns once all but the sidecars have ended for good, or something has ended the
// attempt.
func (m *multiContainer) run(setup bool) (*state.Exit, error) {
	if setup {
		if e, err := m.runOne(m.ctx, m.p, state.SetupID); e != nil || err != nil {
			return e, err
		}
	}
	for i := range m.p.Spec.InitContainers {
		at := state.Place{Init: true, Index: i}
		if at.IsSidecar(m.p) {
			if err := m.startSidecar(at); err != nil {
				return nil, err
			}
		} else if e, err := m.runOne(m.ctx, m.p, at.Command(0)); e != nil || err != nil {
			return e, err
		}
	}
	return nil, m.runMains()
}

// startSidecar returns once a sidecar has started. It is restarted until then, too. Where all
// others have ended, that is not waited for.
func (m *multiContainer) startSidecar(at state.Place) error {
	if _, over := state.Decided(m.p, m.progress.record()); over {
		return nil
	}
	started := make(chan struct{})
	m.live.Go(func() { m.keepRunning(at, func() {}, sync.OnceFunc(func() { close(started) })) })
	if m.initialized() {
		return nil // an agent before this one waited for it
	}
	select {
	case <-started:
		return nil
	case <-m.ctx.Done():
		return context.Cause(m.ctx)
	}
}

// initialized reports that one of the containers that wait for init containers has begun in
// this attempt.
func (m *multiContainer) initialized() bool {
	r := m.progress.record()
	return slices.ContainsFunc(state.Mains(m.p), func(at state.Place) bool {
		begun, _, err := m.record(at.Command(r.Container(at).Run))
		return begun && err == nil
	})
}

// runMains begins the containers in their order, each once the one before it has begun, and
// returns once all have ended for good.
func (m *multiContainer) runMains() error {
	var mains sync.WaitGroup
	for _, at := range state.Mains(m.p) {
		begun := make(chan struct{})
		release := sync.OnceFunc(func() { close(begun) })
		mains.Go(func() {
			defer release()
			m.keepRunning(at, release, func() {})
		})
		select {
		case <-begun:
		case <-m.ctx.Done():
		}
	}
	mains.Wait()
	return context.Cause(m.ctx)
}

// keepRunning runs a container as often as its policy asks, until it has ended for good or
// the attempt is over. begun is called once its command has begun, its hook included, and
// started once its startup probe has succeeded.
func (m *multiContainer) keepRunning(at state.Place, begun, started func()) {
	for m.ctx.Err() == nil {
		if !m.ended(at) {
			if err := m.runOnce(at, begun, started); err != nil {
				m.stop(err)
				return
			}
		}
		begun()
		if !m.restart(at) {
			return
		}
	}
}

// ended reports that a container has an end of the run that it is at.
func (m *multiContainer) ended(at state.Place) bool {
	r := m.progress.record()
	return r.Container(at).Exit != nil
}

// runOnce runs a container's command to its end, and notes that.
func (m *multiContainer) runOnce(at state.Place, begun, started func()) error {
	r := m.progress.record()
	id := at.Command(r.Container(at).Run)
	ended, err := m.begin(m.ctx, m.p, id)
	var killed *containerFailedError
	if ended == nil && err == nil {
		ended, killed, err = m.toEnd(id, begun, started)
	}
	switch {
	case err != nil:
		return err
	case ended == nil || ended.Outcome == shim.Lost || ended.Outcome == shim.Unreachable:
		return &commandLostError{id, ended}
	case ended.Outcome == shim.Exited:
		m.messages.fetch(m.ctx, id)
	}
	e := state.CommandExit(m.p, m.progress.record(), *ended)
	e.Unhealthy = killed != nil && killed.unhealthy
	m.messages.add(&e)
	m.noteEnd(at, e)
	return nil
}

// toEnd waits for the end of a command that has begun, and brings that about where its hook
// or a probe fails.
func (m *multiContainer) toEnd(id string, begun, started func()) (ended *shim.CommandEnd, killed *containerFailedError, err error) {
	failures := make(chan *containerFailedError, 1)
	fail := func(why *containerFailedError) {
		select {
		case failures <- why:
		default:
		}
	}
	running, cancel := context.WithCancelCause(m.ctx)
	var killing sync.WaitGroup
	killing.Go(func() {
		select {
		case killed = <-failures:
			if !m.kill(running, id, killed) {
				cancel(&commandLostError{id, lostCommand(id, "it could not be killed")})
			}
		case <-running.Done():
		}
	})
	var failed *containerFailedError
	if err = m.markRuns(running, id, fail, started); errors.As(err, &failed) {
		fail(failed)
		err = nil
	}
	begun()
	if err == nil {
		ended, err = m.await(running, id)
	}
	cancel(nil)
	killing.Wait()
	if err == nil {
		m.probing.stopOf(id)
	}
	return ended, killed, err
}

// kill ends one container, and the guest goes on. It reports that the command has ended, or
// that the attempt is over.
func (m *multiContainer) kill(ctx context.Context, id string, why *containerFailedError) bool {
	m.log.Info("container killed", "command", id, "why", why.message)
	m.report.containerEvent(id, corev1.EventTypeNormal, "Killing", why.message)
	return m.ender.kill(ctx, id, why.grace)
}

// noteEnd writes the end of a container down before anything is done about it.
func (m *multiContainer) noteEnd(at state.Place, e state.Exit) {
	m.log.Info("container ended", "container", at.In(m.p).Name, "code", e.Code, "reason", e.Reason, "message", e.Message)
	m.progress.change(func(r *state.Record) {
		l := r.Container(at)
		*l = l.CountEnd(e)
		m.progress.mainRan = m.progress.mainRan || r.MainsRan(m.p)
	})
	m.progress.save()
	m.report.showProgress()
	if e.Reason == state.ReasonStart {
		m.report.containerEvent(e.CommandOf(), corev1.EventTypeWarning, "Failed", "Error: "+e.Message)
	}
}

// restart waits for as long as the back-off of a container that has ended asks, and has its
// next command be the one to run. False: it does not run again.
func (m *multiContainer) restart(at state.Place) bool {
	r := m.progress.record()
	delay, again := r.WaitsFor(m.p, at)
	if !again {
		return false
	}
	last := r.Container(at).Exit
	if delay > 0 {
		m.report.containerEvent(last.CommandOf(), corev1.EventTypeWarning, "BackOff", state.BackOffEvent(m.p, at.In(m.p).Name))
	}
	// The clock may have been set back since.
	if left := min(delay, delay-m.clock.Since(last.Finished)); left > 0 && wait.For(m.ctx, m.clock, left) != nil {
		return false
	}
	m.progress.change(func(r *state.Record) { *r.Container(at) = r.Container(at).Again() })
	m.progress.save()
	m.dropRun(at, r.Container(at).Run-1)
	return m.ctx.Err() == nil
}

// dropRun removes what is left of a run of a container that is not asked for any more: its
// last one is what --previous means.
func (m *multiContainer) dropRun(at state.Place, n int) {
	if n < 0 {
		return
	}
	id := at.Command(n)
	for _, of := range []string{id, state.MessageID(id), state.PreStopOf(id), state.PostStartOf(id)} {
		if err := shim.Forget(m.progress.dir(), of, of+".log"); err != nil {
			m.log.Warn("what an old run of a container has left was not removed", "command", of, "err", err)
		}
	}
}

// groupsToEnd are the commands that run now, in the order in which they are told to end: all
// but the sidecars at once, then these, the last one first.
func groupsToEnd(p *corev1.Pod, r state.Record, runs func(id string) bool) [][]string {
	var groups [][]string
	var together []string
	for _, at := range state.Mains(p) {
		if id := at.Command(r.Container(at).Run); runs(id) {
			together = append(together, id)
		}
	}
	if len(together) > 0 {
		groups = append(groups, together)
	}
	for _, at := range slices.Backward(state.Sidecars(p)) {
		if id := at.Command(r.Container(at).Run); runs(id) {
			groups = append(groups, []string{id})
		}
	}
	return groups
}
