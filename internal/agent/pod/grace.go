package pod

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// orphanGrace is for machines whose Pod sets no grace any more.
	orphanGrace = time.Second
	// graceStep is by how much a grace must be shorter to count: a grace that never
	// changes is counted in whole seconds.
	graceStep = 500 * time.Millisecond
)

// grace is how long the guest may take to shut down, as the Pod says now.
func (w *worker) grace() time.Duration {
	p, dying := w.deletion()
	var over *overError
	switch {
	case w.isGone():
		return orphanGrace
	case !dying.IsZero():
		return max(orphanGrace, deletionGrace(p)-w.clock.Since(dying))
	case errors.As(context.Cause(w.life), &over) && over.grace >= 0:
		return over.grace
	}
	return graceOfSpec(p)
}

// deletion is the Pod, and since when it is being deleted by this host's clock: zero
// when it is not.
func (w *worker) deletion() (*corev1.Pod, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod, w.dying
}

// deletionGrace is the one that whoever deletes the Pod gives it. The API server says
// next to it when that is over, by its own clock, which may not be ours.
func deletionGrace(p *corev1.Pod) time.Duration {
	if s := p.DeletionGracePeriodSeconds; s != nil {
		return seconds(*s)
	}
	return graceOfSpec(p)
}

func graceOfSpec(p *corev1.Pod) time.Duration {
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		return seconds(*s)
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

func seconds(n int64) time.Duration { return time.Duration(min(max(1, n), maxSeconds)) * time.Second }

// dyingSince is when the deletion of a Pod began that comes to this agent deleted. An
// agent before this one may have seen it, so that the clocks are compared, where that
// does not make the grace longer.
func dyingSince(p *corev1.Pod, now time.Time) time.Time {
	if p.DeletionTimestamp == nil {
		return time.Time{}
	}
	if begin := p.DeletionTimestamp.Add(-deletionGrace(p)); begin.Before(now) {
		return begin
	}
	return now
}

// atOnce is the grace of a machine that must not run on.
func atOnce() time.Duration { return orphanGrace }

// stopMachine stops a machine within its grace. One that is made shorter meanwhile
// counts at once.
func (w *worker) stopMachine(ctx context.Context, name string, grace func() time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	var stopping sync.WaitGroup
	defer stopping.Wait()
	defer cancel()
	ended := make(chan error, 1)
	var due time.Time
	for {
		_, changed := w.observe()
		left := grace()
		if at := w.clock.Now().Add(left); due.IsZero() || due.Sub(at) > graceStep {
			due = at
			stopping.Go(func() {
				err := w.driver.Stop(ctx, name, left)
				select {
				case ended <- err:
				default:
				}
			})
		}
		select {
		case err := <-ended:
			return err
		case <-changed:
		}
	}
}
