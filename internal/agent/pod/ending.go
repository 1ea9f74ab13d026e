package pod

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
	"github.com/macfleet/macfleet/internal/agent/shim"
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
	groups := w.ender.runs()
	grace := w.pod.grace(w.life)
	if left, _ := grace(); len(groups) == 0 || left <= state.OrphanGrace {
		return nil
	}
	w.ender.begin(w.life.Err() == nil)
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
	w.ender.endAll(ending, groups, grace)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var no *firewall.NotProvedError
	if err := context.Cause(ending); errors.As(err, &no) {
		e, err := w.stopUnproved(ctx, err)
		if err != nil {
			return err
		}
		w.progress.Record = w.progress.Ended(w.pod.current(), e)
	}
	return nil
}

// runs are the commands of the guest that run now, in the order in which they are to end;
// none that cannot be told so.
func (e *ender) runs() [][]string {
	if e.progress.LegacyVM != "" || e.progress.Step != state.StepRunning {
		return nil
	}
	dir := e.progress.dir()
	if alive, err := e.runtime.Shims.Alive(dir); err != nil || !alive {
		return nil
	}
	p := e.pod.current()
	found, err := state.ProgressOf(state.CommandIDs(p, false), func(id string) (bool, *shim.CommandEnd, error) {
		return e.runtime.Shims.Command(dir, id)
	})
	if err != nil {
		return nil
	}
	var groups [][]string
	if id := found.CommandToEnd(); id != "" {
		groups = [][]string{{id}}
	}
	if !state.Several(p) {
		return groups
	}
	return append(groups, groupsToEnd(p, e.progress.Record, e.isRunning)...)
}

// reportKilling tells which containers are ended with their Pod.
func (e *ender) reportKilling() {
	groups := e.runs()
	if len(groups) == 0 {
		groups = [][]string{{state.MainID}}
	}
	e.report.killing(groups)
}

func (e *ender) isRunning(id string) bool {
	begun, ended, err := e.runtime.Shims.Command(e.progress.dir(), id)
	return err == nil && begun && ended == nil
}

// begin notes since when the grace of an end counts that has no deletionTimestamp.
// containerOnly: the Pod is to live on.
func (e *ender) begin(containerOnly bool) {
	if e.progress.Ending == nil {
		e.progress.Ending = &state.Ending{Since: e.clock.Now(), ContainerOnly: containerOnly}
		e.progress.save()
	}
	e.pod.countGrace(e.progress.Ending.Since)
}

// endSidecars ends what runs beside containers that have all ended for good. The error is
// that of ctx.
func (e *ender) endSidecars(ctx context.Context, p *corev1.Pod) error {
	groups := groupsToEnd(p, e.progress.Record, e.isRunning)
	if len(groups) == 0 {
		return nil
	}
	e.report.killing(groups)
	e.begin(false)
	e.endAll(ctx, groups, e.pod.grace(e.life))
	// The guest has the grace for itself.
	e.pod.countGrace(time.Time{})
	return context.Cause(ctx)
}

// endAll ends the commands of groups as a kubelet ends containers: the hooks of all begin at once, and a group is told
// to end once the one before it has ended, or the grace is over. What others outlive is then killed; what ends last
// goes with its guest.
func (e *ender) endAll(ctx context.Context, groups [][]string, grace vmruntime.Grace) {
	var all sync.WaitGroup
	defer all.Wait()
	turn := closed()
	for i, group := range groups {
		var ending sync.WaitGroup
		for _, id := range group {
			c := e.endingOf(id, grace, turn)
			ending.Go(func() {
				e.end(ctx, c)
				if i < len(groups)-1 {
					e.force(ctx, id)
				}
				e.endHook(ctx, id, state.PreStopOf(id))
			})
		}
		next := make(chan struct{})
		all.Go(func() {
			ending.Wait()
			close(next)
		})
		turn = next
	}
}

// endingOf is the end of a command within the grace of its Pod, which may become shorter meanwhile.
func (e *ender) endingOf(id string, grace vmruntime.Grace, turn <-chan struct{}) *commandEnding {
	several := state.Several(e.pod.current())
	c := &commandEnding{id: id, since: e.progress.Ending.Since, grace: grace, turn: turn, told: e.progress.record().Ending.Of(id)}
	c.whole = func() time.Duration { return e.pod.wholeGrace(e.life) }
	c.margin = func() time.Duration { return state.StopMargin(c.whole()) }
	c.note = func() {
		e.progress.change(func(r *state.Record) { r.Ending.Note(id, several, c.told) })
		e.progress.save()
	}
	return c
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// killTimeout is how long a command may take to end that was killed.
const killTimeout = 10 * time.Second

// kill ends a command beside which others go on, by force where its grace is over. It reports
// whether it has ended.
func (e *ender) kill(ctx context.Context, id string, grace time.Duration) bool {
	since := e.clock.Now()
	c := &commandEnding{id: id, since: since, turn: closed(), margin: func() time.Duration { return 0 }, note: func() {}}
	c.whole = func() time.Duration { return grace }
	c.grace = func() (time.Duration, <-chan struct{}) { return grace - e.clock.Since(since), nil }
	e.end(ctx, c)
	ended := e.force(ctx, id)
	e.endHook(ctx, id, state.PreStopOf(id))
	return ended
}

// force kills a command that runs still. It reports whether it has ended.
func (e *ender) force(ctx context.Context, id string) bool {
	if ctx.Err() != nil || !e.isRunning(id) {
		return true
	}
	within, cancel := e.withinKill(ctx)
	defer cancel()
	err := e.signal(within, id, syscall.SIGKILL)
	switch {
	case ctx.Err() != nil:
		return true
	case err != nil:
		e.log.Warn("the command was not killed", "command", id, "err", err)
		return false
	}
	_, _ = e.runtime.Shims.Await(within, e.progress.dir(), id) // what came of it is looked at
	return ctx.Err() != nil || !e.isRunning(id)
}

// withinKill ends a context once what was killed is not awaited any more.
func (e *ender) withinKill(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var counting sync.WaitGroup
	counting.Go(func() {
		_ = wait.For(ctx, e.clock, killTimeout) // either way it is over
		cancel()
	})
	return ctx, func() {
		cancel()
		counting.Wait()
	}
}

// commandEnding is the end of one command.
type commandEnding struct {
	id    string
	since time.Time
	grace vmruntime.Grace
	// turn is closed once all have ended that are to end before it.
	turn <-chan struct{}
	// whole is the grace from its beginning, of which margin is left for the guest.
	whole, margin func() time.Duration
	// told is what it was told already; note writes that down.
	told state.Told
	note func()
}

// end returns once the command has ended, its grace is over, or it cannot be told.
func (e *ender) end(ctx context.Context, c *commandEnding) {
	container, _ := state.ContainerOf(e.pod.current(), c.id)
	if hook := state.PreStop(container); hook != nil && !c.told.Hooked {
		e.preStop(ctx, c, container, *hook)
	}
	e.awaitTurn(ctx, c)
	// As a kubelet, beyond the grace where that is over: what others kept waiting has time to end by itself.
	within, cancel := e.within(ctx, c, state.TermLeast)
	defer cancel()
	if !c.told.Signaled {
		if err := e.signal(within, c.id, syscall.SIGTERM); err != nil {
			if ctx.Err() == nil { // else the next agent tells it
				e.log.Warn("the command was not told to end, its guest is", "command", c.id, "err", err)
			}
			return
		}
		c.told.Signaled = true
		c.note()
		e.log.Info("command told to end", "command", c.id)
	}
	for {
		ended, err := e.runtime.Shims.Await(within, e.progress.dir(), c.id)
		if err == nil && ended != nil && ended.Outcome == shim.Exited {
			e.messages.fetch(within, c.id)
		}
		var refused *shim.RefusedError
		if err == nil || errors.As(err, &refused) || wait.For(within, e.clock, shimPause) != nil {
			return
		}
	}
}

// awaitTurn returns once all has ended that is to end before a command, or the grace is over.
func (e *ender) awaitTurn(ctx context.Context, c *commandEnding) {
	ctx, cancel := e.within(ctx, c, 0)
	defer cancel()
	select {
	case <-c.turn:
	case <-ctx.Done():
	}
}

// within ends a context when the grace is over, but for what the guest takes to go down, and not before least of it has
// passed. A grace that leaves no time at all ends it at once.
func (e *ender) within(ctx context.Context, c *commandEnding, least time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	begun := e.clock.Now()
	var counting sync.WaitGroup
	counting.Go(func() {
		for {
			left, changed := c.usable()
			if c.whole() > state.OrphanGrace {
				left = max(left, least-e.clock.Since(begun))
			}
			if left <= 0 {
				cancel(errGraceOver)
				return
			}
			if _, err := wait.Or(ctx, e.clock, changed, left); err != nil {
				return
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		counting.Wait()
	}
}

// usable is what is left of the grace for the command.
func (c *commandEnding) usable() (time.Duration, <-chan struct{}) {
	left, changed := c.grace()
	if left <= state.OrphanGrace {
		return 0, changed
	}
	return left - c.margin(), changed
}

// signal sends a signal, as often as it takes. It fails where it never can be sent.
func (e *ender) signal(ctx context.Context, id string, sig syscall.Signal) error {
	for {
		err := e.runtime.Shims.Signal(ctx, e.progress.dir(), id, sig)
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
