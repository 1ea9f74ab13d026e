package pod

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
)

// object is the newest version of one Pod object.
type object struct {
	uid   types.UID
	clock clock.Clock
	// deleted is closed when the object is being deleted, or is gone.
	deleted chan struct{}

	mu sync.Mutex
	// asked is the object as it is, pod the same with the resources that it was given: a
	// change of them has no effect before the VM is made anew.
	asked, pod *corev1.Pod
	given      state.Resources
	// changed is closed and replaced when pod or gone changes.
	changed chan struct{}
	// relabeled is closed and replaced when labels or annotations change.
	relabeled chan struct{}
	// gone: the object is not there any more.
	gone bool
	// deletingSince is by this host's clock; zero: the Pod is not being deleted.
	deletingSince time.Time
	// endingSince is when the end began of a Pod that is not being deleted; zero: it does
	// not count yet.
	endingSince time.Time
	// failureGrace is that of a container which is killed for its own failure; nil: none is.
	failureGrace *time.Duration
}

func newObject(p *corev1.Pod, c clock.Clock) *object {
	given := state.ShownResources(p)
	o := &object{
		uid: p.UID, clock: c, asked: p, pod: state.WithResources(p, given), given: given,
		changed: make(chan struct{}), relabeled: make(chan struct{}), deleted: make(chan struct{}),
	}
	if p.DeletionTimestamp != nil {
		o.deletingSince = state.DeletingSince(p, c.Now())
		close(o.deleted)
	}
	return o
}

func (o *object) update(p *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !maps.Equal(o.pod.Labels, p.Labels) || !maps.Equal(o.pod.Annotations, p.Annotations) {
		close(o.relabeled)
		o.relabeled = make(chan struct{})
	}
	o.asked, o.pod = p, state.WithResources(p, o.given)
	if p.DeletionTimestamp != nil {
		if o.deletingSince.IsZero() {
			o.deletingSince = o.clock.Now()
		}
		o.markDeleted()
	}
	o.notify()
}

func (o *object) markGone() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone = true
	o.markDeleted()
	o.notify()
}

// markDeleted may be called again: a deletion may come again with a shorter grace.
func (o *object) markDeleted() {
	select {
	case <-o.deleted:
	default:
		close(o.deleted)
	}
}

func (o *object) notify() {
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *object) current() *corev1.Pod {
	p, _ := o.observe()
	return p
}

// observe returns the Pod, and what is closed once there is a newer one.
func (o *object) observe() (*corev1.Pod, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pod, o.changed
}

// resized returns the Pod as it asks to be, where that is with other resources than it was
// given; nil: it has what it asks for.
func (o *object) resized() *corev1.Pod {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked == o.pod {
		return nil
	}
	return o.asked
}

// give makes the resources that p asks for those that the Pod has.
func (o *object) give(p *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.given = state.ResourcesOf(p)
	o.pod = state.WithResources(o.asked, o.given)
}

// relabels returns what is closed once the Pod has other labels or annotations, which its
// volumes may show.
func (o *object) relabels() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.relabeled
}

func (o *object) isGone() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone
}

// grace is how long the guest may take to shut down, as the Pod says now. life is
// the context that a podFailedError ends.
func (o *object) grace(life context.Context) vmruntime.Grace {
	return func() (time.Duration, <-chan struct{}) {
		o.mu.Lock()
		defer o.mu.Unlock()
		whole, since := o.graceOf(life)
		if since.IsZero() {
			return whole, o.changed
		}
		return max(state.OrphanGrace, min(whole, whole-o.clock.Since(since))), o.changed
	}
}

// shutdownLimit is how long a guest may take to go down whose command has ended by itself. The
// grace is for the command; the Pod has not ended, and is not restarted, before its guest is down.
const shutdownLimit = 30 * time.Second

// shutdownGrace is that of a guest whose command has ended by itself.
func (o *object) shutdownGrace(life context.Context) vmruntime.Grace {
	grace := o.grace(life)
	return func() (time.Duration, <-chan struct{}) {
		left, changed := grace()
		return min(left, shutdownLimit), changed
	}
}

// wholeGrace is the grace from its beginning.
func (o *object) wholeGrace(life context.Context) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	whole, _ := o.graceOf(life)
	return whole
}

// graceOf returns the grace, and since when it counts; zero: it does not.
func (o *object) graceOf(life context.Context) (time.Duration, time.Time) {
	var failed *podFailedError
	switch {
	case o.gone:
		return state.OrphanGrace, time.Time{}
	case !o.deletingSince.IsZero():
		return state.DeletionGrace(o.pod), o.deletingSince
	case errors.As(context.Cause(life), &failed) && failed.grace >= 0:
		return failed.grace, time.Time{}
	}
	if o.failureGrace != nil {
		return *o.failureGrace, o.endingSince
	}
	return state.SpecGrace(o.pod), o.endingSince
}

// graceOfFailure is the grace from now on, where the Pod is not being deleted; nil: that of
// the Pod.
func (o *object) graceOfFailure(grace *time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failureGrace = grace
}

// countGrace counts the grace of a Pod that is not being deleted from a time on; zero:
// it counts no more.
func (o *object) countGrace(since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endingSince = since
}

// killGrace is for a VM that must not run on.
func killGrace() (time.Duration, <-chan struct{}) { return state.OrphanGrace, nil }
