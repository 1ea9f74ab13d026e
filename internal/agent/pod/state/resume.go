package state

import "github.com/macfleet/macfleet/internal/agent/shim"

// Findings is what a worker finds of its Pod when it begins: in the checkpoint, on the
// host, and in the Pod's own status.
type Findings struct {
	Record *Record
	// Running: the lock of the recorded VM is held.
	Running bool
	// ShimAlive, ShimStarted and Exit are those of the recorded attempt.
	ShimAlive   bool
	ShimStarted bool
	Exit        *shim.Exit
	BootSession string
	// Ran: the API shows that a container of this Pod has run.
	Ran bool
	// Reconstructed: the checkpoint is gone, and Record, if any, is made up from what is left.
	Reconstructed bool
}

// Action is what to do next with a Pod.
type Action string

const (
	// ActionBegin makes the recorded attempt (anew), or the first.
	ActionBegin Action = "begin"
	// ActionReattach goes on with the VM that runs.
	ActionReattach Action = "adopt"
	// ActionReadExit takes the end from the exit record.
	ActionReadExit Action = "read"
	// ActionLost takes an exit that nobody knows: the VM ran.
	ActionLost Action = "lost"
	// ActionEnded goes on after an end that is in the checkpoint.
	ActionEnded Action = "ended"
)

// whyRebooted is what becomes of a VM that the host's end took with it.
const whyRebooted = "the host was rebooted while the VM ran"

// Resume classifies what was found. Where the checkpoint is gone, nothing is made anew
// that may be what ran.
func Resume(f Findings) (m Action, why string) {
	if m, why = resumeByRecord(f); m == ActionBegin && f.Reconstructed && f.Ran {
		return ActionLost, "the container ran, and its journal is gone"
	}
	return m, why
}

// resumeByRecord tries rows in order.
func resumeByRecord(f Findings) (m Action, why string) {
	r := f.Record
	switch {
	case r == nil:
		return ActionBegin, ""
	case r.Step == StepEnded:
		return ActionEnded, ""
	case r.Step == StepCreating:
		// A half-made clone is worth nothing; nothing has run.
		return ActionBegin, ""
	case f.Exit != nil:
		return ActionReadExit, ""
	case r.BootSession != f.BootSession:
		return ActionLost, whyRebooted
	case f.Running || f.ShimAlive:
		return ActionReattach, ""
	case r.Step == StepStarting && !f.ShimStarted:
		return ActionBegin, ""
	}
	return ActionLost, "the VM ended while nobody watched"
}
