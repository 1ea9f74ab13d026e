package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/shim"
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
	// bootSession of the host.
	bootSession string
	// replaced: what ends is stopped for another image.
	replaced bool
}

// read takes the exit from what is written down; otherwise is its message where
// nothing is.
func (r *exitReader) read(otherwise string) state.Exit {
	p := r.pod.current()
	evidence := r.runtime.Evidence(p, r.progress.dir())
	evidence.Why, evidence.BootSession = otherwise, r.bootSession
	if state.Several(p) {
		r.readMultiContainer(p)
		if s := evidence.Progress; s.ID == "" || state.Succeeded(s.Exit) {
			evidence.Progress = state.Pending(p, r.progress.Record)
		}
	}
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

// readMultiContainer takes what is written down of containers that run beside one another and is not
// in the record yet.
func (r *exitReader) readMultiContainer(p *corev1.Pod) {
	dir := r.progress.dir()
	for _, at := range slices.Concat(state.Sidecars(p), state.Mains(p)) {
		l := r.progress.Container(at)
		id := at.Command(l.Run)
		begun, ended, err := r.runtime.Shims.Command(dir, id)
		if l.Exit != nil || err != nil || !begun {
			continue
		}
		if l.Begun.IsZero() {
			l.Begun = r.runtime.Shims.Begun(dir, id)
		}
		if ended != nil && (ended.Outcome == shim.Exited || ended.Outcome == shim.NotExecuted) {
			e := state.CommandExit(p, r.progress.Record, *ended)
			r.messages.add(&e)
			e.Replaced = r.replaced
			*l = l.CountEnd(e)
		}
	}
}
