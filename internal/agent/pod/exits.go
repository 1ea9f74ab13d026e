package pod

import (
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
)

// exitUnrecorded is the message of an exit that nobody wrote down.
const exitUnrecorded = "the VM ended and its exit was not recorded"

// exitReader says how the attempt of a Pod has ended.
type exitReader struct {
	pod      *object
	progress *progress
	runtime  *vmruntime.Runtime
	inputs   Inputs
	messages *messages
	clock    clock.Clock
}

// read takes the exit from what is written down; otherwise is its message where
// nothing is.
func (r *exitReader) read(otherwise string) state.Exit {
	p := r.pod.current()
	evidence := r.runtime.Evidence(p, r.progress.dir())
	evidence.Why = otherwise
	if r.progress.LegacyVM != "" {
		evidence.Why = state.LegacyExitUnknown
	}
	if code, found := r.inputs.ExitReport(r.pod.uid); found && !state.RunsCommand(p) {
		evidence.Report = &code
	}
	e := state.ExitOf(p, r.progress.Record, evidence, r.clock.Now())
	if evidence.Progress.ID != "" {
		r.messages.add(&e)
	}
	return e
}
