package machine

import (
	"time"

	"github.com/macfleet/macfleet/internal/host"
)

// Absence is one Host that did not exist when it was looked for, and since when. It
// lives in memory only: after a restart the proof that a server is gone is begun again.
type Absence struct {
	token string
	since time.Time
	// listed is when the first believed list since then was begun; zero: none yet.
	listed time.Time
	// emptied is when the first of the empty lists was begun that all have been since
	// then, and that prove nothing; zero: the last list was another.
	emptied time.Time
}

// Proof is what the lists of a zone say of a server whose Host does not exist.
type Proof int

const (
	// ProofNone is not enough yet.
	ProofNone Proof = iota
	// ProofGone says that the vendor no longer has the server.
	ProofGone
	// ProofImpossible says that for long the lists have been empty, as with lost rights. Waiting
	// will not bring a proof, unless the zone is mended.
	ProofImpossible
)

// Note takes in that the Host of a claim does not exist now, and how its zone was last
// listed. It reports what that proves. The inventory makes a Host for every server it
// lists: two lists as far apart as host.GoneAfter, both begun after the Host was first
// missed, held no such server. An empty list counts only where another zone's list
// bears witness to our rights.
func (a *Absence) Note(token string, now time.Time, report host.ZoneReport) Proof {
	if a.since.IsZero() || a.token != token {
		*a = Absence{token: token, since: now}
	}
	if report.Err != nil || !report.At.After(a.since) {
		return ProofNone
	}
	return a.take(report)
}

// take takes in a list that was begun after the Host was first missed.
func (a *Absence) take(report host.ZoneReport) Proof {
	if report.Hosts == 0 && !report.EmptyBelieved {
		if a.emptied.IsZero() {
			a.emptied = report.At
		}
		if report.At.Sub(a.emptied) >= host.GoneAfterSuspicious {
			return ProofImpossible
		}
		return ProofNone
	}
	a.emptied = time.Time{}
	switch {
	case report.Suspicious:
	case a.listed.IsZero():
		a.listed = report.At
	case report.At.Sub(a.listed) >= host.GoneAfter:
		return ProofGone
	}
	return ProofNone
}
