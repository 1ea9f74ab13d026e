// Package host decides about hosts: what phase one is in, which one a Machine
// should take, what repairs a claim that a crash left half done, what a claim's
// name needs next, what a wipe needs next, what a failed bootstrap asks for and
// what becomes of a host that is let go. Everything in it is a pure function of
// objects and of the vendor's answers: no client, no I/O, no goroutines, and the
// time comes in as a value. Acting on the decisions is left to the controllers,
// talking to the vendor to package cloud.
package host

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// Host is the object that all decisions are about.
type Host = infrav1.ScalewayAppleSiliconHost

// ZoneReport is what the last inventory of a zone found.
type ZoneReport struct {
	// Hosts is how many servers the vendor listed.
	Hosts int
	// Err of the last list; a vendor error, nil when it worked.
	Err error
	// At is when the last list that worked was started; zero: none ever did.
	At time.Time
	// Suspicious: too many servers vanished at once to believe it.
	Suspicious bool
	// EmptyBelieved: a list of this zone that holds no server would be proof that it
	// has none, since another zone lists servers with the same rights.
	EmptyBelieved bool
	// Failing: so many of the last vendor calls failed that nothing destructive is
	// begun on our own account.
	Failing bool
	// FailingSince is when the lists began to fail: the start of the first of those
	// that failed without one between that worked. Zero: the last one worked.
	FailingSince time.Time
	// Expected and Missing count the servers that the last list was to hold, and those
	// that it lacks without a reason.
	Expected, Missing int
	// Refused are the writes that the credentials have no right to.
	Refused []cloud.Refusal
}

// stamp is the time as the API keeps it, in whole microseconds.
func stamp(t time.Time) *metav1.MicroTime {
	at := metav1.NewMicroTime(t.Truncate(time.Microsecond))
	return &at
}

// stampAfter is now, or just after the other times where clocks disagree: the
// order of events must not depend on which manager's clock wrote them.
func stampAfter(now time.Time, others ...*metav1.MicroTime) *metav1.MicroTime {
	at := now.Truncate(time.Microsecond)
	for _, other := range others {
		if other != nil && !at.After(other.Time) {
			at = other.Add(time.Microsecond)
		}
	}
	return stamp(at)
}
