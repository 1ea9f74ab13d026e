package host

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// What a host's failures lead to.
const (
	// failuresKept is the limit of the API; the oldest are forgotten first.
	failuresKept = 16
	// failureMemory is how long a failure counts against a host.
	failureMemory = 7 * 24 * time.Hour
	// failuresAllowed in that time end in quarantine.
	failuresAllowed = 3
	// quarantineTime is how long such a quarantine lasts.
	quarantineTime = 24 * time.Hour
)

// recentFailures counts the claims that came to nothing here within a week.
func recentFailures(h *Host, now time.Time) int {
	n := 0
	for _, failure := range h.Spec.Failures.Recent {
		if failure.Time.After(now.Add(-failureMemory)) {
			n++
		}
	}
	return n
}

// RecordGivenUp notes that the Machine of the present claim is given up by its health check: as a
// claim that came to nothing, and once, however often it is noted. One that was no Node yet
// costs its Mac nothing where that is not at fault.
func RecordGivenUp(h *Host, b Bringup, now time.Time) {
	if b.Pending && !b.atFault() {
		return
	}
	counted := slices.ContainsFunc(h.Spec.Failures.Recent, func(f infrav1.Failure) bool {
		return f.Reason == infrav1.ReasonExhausted && (h.Spec.Record.Wipe.RequiredSince == nil || f.Time.After(h.Spec.Record.Wipe.RequiredSince.Time))
	})
	if !counted {
		recordFailure(h, infrav1.ReasonExhausted, now)
	}
}

// recordFailure notes a claim that came to nothing, in the hardware's memory. A disk that a
// wipe left dirty is for a person to judge: that quarantine has no end. The third
// failure within a week quarantines for a day.
func recordFailure(h *Host, reason string, now time.Time) {
	failures := &h.Spec.Failures
	failures.Count++
	failures.Recent = append(failures.Recent, infrav1.Failure{Time: metav1.NewTime(now), Reason: reason})
	failures.Recent = failures.Recent[max(0, len(failures.Recent)-failuresKept):]
	switch n := recentFailures(h, now); {
	case h.Spec.Quarantine != nil && h.Spec.Quarantine.Until == nil:
		return // a person's word, or what only a person ends
	case reason == infrav1.ReasonNotWiped:
		h.Spec.Quarantine = &infrav1.Quarantine{Reason: infrav1.ReasonNotWiped}
	case n >= failuresAllowed:
		until := metav1.NewTime(now.Add(quarantineTime))
		h.Spec.Quarantine = &infrav1.Quarantine{Reason: fmt.Sprintf("%d claims came to nothing within a week", n), Until: &until}
	}
}
