package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Backoff is how long a Mac is left alone after so many failures of a revision.
func Backoff(failures int) time.Duration {
	const first = time.Minute
	if failures > 5 {
		return CoolDown
	}
	return min(first<<max(0, failures-1), CoolDown)
}

// HeldBackoff is how long a change that was put off waits until it is tried again.
const HeldBackoff = 5 * time.Minute

// Instant is a time of a status; zero where there is none.
func Instant(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// Reachable is a time of a status that something waits for. One that is further ahead than
// any clock can be is taken as of long ago: zero.
func Reachable(t *metav1.Time, now time.Time) time.Time {
	if at := Instant(t); !at.After(now.Add(permitLimit)) {
		return at
	}
	return time.Time{}
}

// NotBefore is when a revision may be tried again on a Mac; zero: at once.
func NotBefore(failures int, failedAt, heldAt time.Time) time.Time {
	var failed, held time.Time
	if failures > 0 {
		failed = failedAt.Add(Backoff(failures))
	}
	if !heldAt.IsZero() {
		held = heldAt.Add(HeldBackoff)
	}
	if held.After(failed) {
		return held
	}
	return failed
}
