package machine

import (
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/host"
)

// What the lists proved of one Host says nothing of the next: each intent is missed
// for itself.
func TestAnAbsenceProvesNothingOfAnotherHost(t *testing.T) {
	at := func(after time.Duration) host.ZoneReport { return host.ZoneReport{Hosts: 1, At: start().Add(after)} }
	now := start()
	var known Absence
	for _, report := range []host.ZoneReport{at(-time.Second), at(time.Second)} {
		if got := known.Note("first", now, report); got != ProofNone {
			t.Fatalf("first: %d", got)
		}
	}
	if got := known.Note("second", now.Add(time.Minute), at(time.Minute)); got != ProofNone {
		t.Errorf("second, missed since just now: %d", got)
	}
	if got := known.Note("second", now, at(2*time.Minute)); got != ProofNone {
		t.Errorf("second, its first list: %d", got)
	}
	if got := known.Note("second", now, at(3*time.Minute)); got != ProofGone {
		t.Errorf("second, its second list: %d, want it gone", got)
	}
}
