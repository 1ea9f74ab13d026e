package host

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FirstSeen is when this manager first saw each time that a Host records, by its own
// clock. The time itself may be by the clock of another manager, which can be ahead
// or behind by more than what must pass after it: that is measured from when it was
// seen, with one clock. Zero: it is taken from the record.
type FirstSeen struct{ Required, Requested, Started, Shown time.Time }

// from is when to measure from.
func from(known time.Time, recorded *metav1.MicroTime) time.Time {
	if known.IsZero() {
		return recorded.Time
	}
	return known
}
