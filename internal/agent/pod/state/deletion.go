package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// OrphanGrace is for VMs whose Pod sets no grace any more.
const OrphanGrace = time.Second

// DeletionGrace is deletionGracePeriodSeconds. deletionTimestamp says when that is
// over by the API server's clock, from which the host's may differ.
func DeletionGrace(p *corev1.Pod) time.Duration {
	if s := p.DeletionGracePeriodSeconds; s != nil {
		return seconds(*s)
	}
	return SpecGrace(p)
}

// SpecGrace is terminationGracePeriodSeconds.
func SpecGrace(p *corev1.Pod) time.Duration {
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		return seconds(*s)
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

func seconds(n int64) time.Duration { return time.Duration(min(max(1, n), maxSeconds)) * time.Second }

// DeletingSince is when the deletion of a Pod began that this agent first sees deleted.
// An agent before this one may have seen it earlier, so that the clocks are compared,
// unless that makes the grace longer.
func DeletingSince(p *corev1.Pod, now time.Time) time.Time {
	if p.DeletionTimestamp == nil {
		return time.Time{}
	}
	if begin := p.DeletionTimestamp.Add(-DeletionGrace(p)); begin.Before(now) {
		return begin
	}
	return now
}

// maxSeconds keeps durations from overflowing: some hundred years.
const maxSeconds = int64(1) << 33

// ActiveDeadline is when activeDeadlineSeconds of a Pod that began at start is over;
// false: it has none.
func ActiveDeadline(p *corev1.Pod, start time.Time) (time.Time, bool) {
	s := p.Spec.ActiveDeadlineSeconds
	if s == nil {
		return time.Time{}, false
	}
	return start.Add(time.Duration(min(*s, maxSeconds)) * time.Second), true
}
