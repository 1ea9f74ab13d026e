package pod

import (
	"github.com/macfleet/macfleet/internal/agent/shim"
)

// found is what a worker finds of its Pod when it begins: in the journal, on the
// host, and in the Pod's own status.
type found struct {
	Record *entry
	// Running: the lock of the recorded machine is held.
	Running bool
	// ShimAlive, ShimStarted and Exit are those of the recorded attempt.
	ShimAlive   bool
	ShimStarted bool
	Exit        *shim.Exit
	BootSession string
	// Ran: the API shows that a container of this Pod has run.
	Ran bool
	// Traced: the journal is gone, and Record, if any, is made up from what is left.
	Traced bool
}

// move is what to do next with a Pod.
type move string

const (
	// moveBegin makes the recorded attempt (anew), or the first.
	moveBegin move = "begin"
	// moveAdopt goes on with the machine that runs.
	moveAdopt move = "adopt"
	// moveRead takes the end from the exit record.
	moveRead move = "read"
	// moveLost: it ran, and nobody knows how it ended.
	moveLost move = "lost"
	// moveEnded goes on after an end that is in the journal.
	moveEnded move = "ended"
)

// resume classifies what was found. Where the journal is gone, nothing is made anew
// that may be what ran.
func resume(f found) (m move, why string) {
	if m, why = resumeFrom(f); m == moveBegin && f.Traced && f.Ran {
		return moveLost, "the container ran, and its journal is gone"
	}
	return m, why
}

// resumeFrom tries rows in order.
func resumeFrom(f found) (m move, why string) {
	r := f.Record
	switch {
	case r == nil:
		return moveBegin, ""
	case r.Step == stepEnded:
		return moveEnded, ""
	case r.Step == stepCreating:
		// A half-made clone is worth nothing; nothing has run.
		return moveBegin, ""
	case f.Exit != nil:
		return moveRead, ""
	case r.BootSession != f.BootSession:
		return moveLost, "the host was rebooted while the VM ran"
	case f.Running || f.ShimAlive:
		return moveAdopt, ""
	case r.Step == stepStarting && !f.ShimStarted:
		return moveBegin, ""
	}
	return moveLost, "the VM ended while nobody watched"
}
