// Package probe runs the startup, liveness and readiness probes of one container, as a
// kubelet does: its delays, thresholds, messages and metrics. What follows from a failure
// is the worker's.
package probe

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/action"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

// Options of Run.
type Options struct {
	Container corev1.Container
	// Begun is when the container began, which initialDelaySeconds counts from.
	Begun time.Time
	// Status is what is known of the container already: Initial, or for one that an earlier
	// agent probed what that has found.
	Status Status
	Guest  action.Runner
	Clock  clock.Clock
	// Terminating is closed when the Pod is being deleted: from then on readiness alone is
	// probed. Nil: that is not to be expected.
	Terminating <-chan struct{}
	// Running reports whether the container runs still: the failure of a probe says nothing of one
	// that has ended meanwhile, or whose VM has. Nil: it does, until Run is to end.
	Running func() bool
	// Changed is told of each new status.
	Changed func(Status)
	// Failed is told, once, that a liveness or startup probe has failed for good.
	Failed func(Kind)
	// Event is what the Pod's events are to say. None of these calls may wait for Run.
	Event func(kind, reason, message string)
	// Metrics may be nil, Labels belong to them.
	Metrics *Metrics
	Labels  Labels
}

// The reasons of events, as a kubelet has them.
const (
	reasonUnhealthy = "Unhealthy"
	reasonWarning   = "ProbeWarning"
)

// Run probes a container until ctx ends, which the end of the container must see to.
func Run(ctx context.Context, o Options) {
	p := &prober{Options: o, status: o.Status, started: make(chan struct{})}
	if p.status.Started {
		close(p.started)
	}
	var probing sync.WaitGroup
	defer probing.Wait()
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	for kind, spec := range of(o.Container) {
		switch {
		case spec == nil || kind == Startup && p.status.Started:
		case kind == Readiness:
			probing.Go(func() { p.run(ctx, kind, spec) })
		default:
			probing.Go(func() { p.run(alive, kind, spec) })
		}
	}
	select {
	case <-o.Terminating:
	case <-ctx.Done():
	}
}

// prober probes one container.
type prober struct {
	Options
	// started is closed once the startup probe has succeeded: the others wait for it.
	started chan struct{}

	mu     sync.Mutex
	status Status
}

// run probes with one probe.
func (p *prober) run(ctx context.Context, kind Kind, spec *corev1.Probe) {
	if kind != Startup {
		select {
		case <-p.started:
		case <-ctx.Done():
			return
		}
	}
	if p.until(ctx, firstDue(p.Begun, spec)) != nil {
		return
	}
	for t := (tally{}); ; {
		begin := p.Clock.Now()
		healthy, known := p.check(ctx, kind, spec)
		if ctx.Err() != nil {
			return
		}
		if known {
			var decided bool
			if t, decided = t.add(healthy, spec); decided && p.conclude(kind, healthy) {
				return
			}
		}
		if p.until(ctx, begin.Add(period(spec))) != nil {
			return
		}
	}
}

// until waits for a time that may be over.
func (p *prober) until(ctx context.Context, due time.Time) error {
	left := due.Sub(p.Clock.Now())
	if left <= 0 {
		return context.Cause(ctx)
	}
	return wait.For(ctx, p.Clock, left)
}

// check is one result; false: nothing is known of the container, as the probe itself
// could not be made.
func (p *prober) check(ctx context.Context, kind Kind, spec *corev1.Probe) (healthy, known bool) {
	begin := p.Clock.Now()
	r, err := p.try(ctx, spec)
	switch {
	case ctx.Err() != nil:
		return false, false
	case (err != nil || !r.healthy) && p.stops(kind, err):
		return false, err == nil && kind == Readiness // it is not ready, and that is nobody's fault
	case err != nil:
		p.Event(corev1.EventTypeWarning, reasonUnhealthy, string(kind)+" probe errored and resulted in unknown state: "+err.Error())
		return false, false
	case r.warning:
		p.Event(corev1.EventTypeWarning, reasonWarning, string(kind)+" probe warning: "+r.message)
	case !r.healthy:
		p.Event(corev1.EventTypeWarning, reasonUnhealthy, string(kind)+" probe failed: "+r.message)
	}
	p.Metrics.add(p.Labels, kind, r.healthy, p.Clock.Since(begin))
	return r.healthy, true
}

// stops reports that what a probe could not find, or not make for the error, is of a stop and no
// fault of the container.
func (p *prober) stops(kind Kind, err error) bool {
	terminating := false
	select {
	case <-p.Terminating:
		terminating = true
	default:
	}
	return terminating && (kind != Readiness || err != nil) || p.Running != nil && !p.Running()
}

// tries is how often a probe that could not be made is tried at once.
const tries = 3

func (p *prober) try(ctx context.Context, spec *corev1.Probe) (r result, err error) {
	for range tries {
		if r, err = check(ctx, spec, &p.Container, p.Guest); err == nil || ctx.Err() != nil {
			break
		}
	}
	return r, err
}

// conclude draws the conclusion of a probe that has decided, and reports whether it is
// done for this run of the container.
func (p *prober) conclude(kind Kind, healthy bool) (done bool) {
	p.mu.Lock()
	was := p.status
	next, failed, done := conclusion(was, kind, healthy, p.Container.ReadinessProbe != nil)
	p.status = next
	if next != was {
		// Under the lock, so that the newest status is the last one told.
		p.Changed(next)
	}
	if next.Started && !was.Started {
		close(p.started) // after it is told: no other probe begins before the container has started
	}
	p.mu.Unlock()
	if failed {
		p.Failed(kind)
	}
	return done
}
