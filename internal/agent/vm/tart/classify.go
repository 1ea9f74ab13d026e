package tart

import (
	"fmt"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// sentence is something tart says when a run ends.
type sentence struct {
	// all of these are in the line, in any case.
	words []string
	kind  vm.OutcomeKind
}

// cleanEnds are the last words of a run that exits with 0. Tart does so also when the
// guest crashed and when its network was lost. The first that fits counts.
func cleanEnds() []sentence {
	return []sentence{
		{[]string{"guest has stopped", "due to error"}, vm.Crashed},
		{[]string{"attachment", "disconnected"}, vm.Crashed},
		{[]string{"guest has stopped"}, vm.ShutDown},
		{[]string{"stopping vm"}, vm.Stopped},
		{[]string{"snapshot created"}, vm.Stopped},
	}
}

// failures are last words of a run that exits with another code. Without them
// nothing ever ran.
func failures() []sentence {
	return []sentence{
		{[]string{"exceeds the system limit"}, vm.Limited},
		{[]string{"maximum supported number of active virtual machines"}, vm.Limited},
		{[]string{"softnet process terminated"}, vm.Crashed},
		{[]string{"guest has stopped"}, vm.Crashed},
		{[]string{"attachment", "disconnected"}, vm.Crashed},
	}
}

// hints say what to look at, by what tart says.
func hints(output string) string {
	switch {
	case sessionless(output):
		return " (macOS guests need a login session with an unlocked login keychain on the host)"
	case maybeSessionless(output):
		return " (macOS 15 says so also where the login keychain on the host is locked: log in at the Mac once, or reboot it; when other images start there, this one is at fault)"
	case full(output):
		return " (the volume is full: free some disk, or give Pods less ephemeral storage)"
	case strings.Contains(output, "failed to lock auxiliary storage"):
		return " (another process uses the machine's files)"
	}
	return ""
}

// sessionless reports what tart says where no login session lets it make host keys.
func sessionless(output string) bool {
	return strings.Contains(output, "Code=-9") || strings.Contains(output, "-25308")
}

// maybeSessionless reports what tart says on macOS 15 where the login keychain is locked,
// and also of a broken image: the status is in macOS' log only. A Node whose guests run
// must not pay for two images, so it is a hint and no verdict on the host.
func maybeSessionless(output string) bool {
	return !sessionless(output) && strings.Contains(output, `VZErrorDomain Code=1 "The virtual machine failed to start."`) &&
		strings.Contains(output, "Internal Virtualization error")
}

// Classify reads how `tart run` ended. The exit code alone says too little: without a
// word that the guest shut down in order, an end with 0 is a crash.
func (d *Driver) Classify(end vm.RunEnd) vm.Outcome {
	last := lastLine(end.Tail)
	switch {
	case end.Signal != 0:
		return vm.Outcome{Kind: vm.Killed, Message: fmt.Sprintf("tart was ended by signal %d", end.Signal)}
	case end.Code < 0:
		return vm.Outcome{Kind: vm.Killed, Message: "tart was ended by a signal"}
	case end.Code == 0:
		return cleanEnd(end.Tail, last)
	}
	if kind, line, ok := latest(end.Tail, failures()); ok {
		return vm.Outcome{Kind: kind, Message: line}
	}
	if last == "" {
		last = "nothing"
	}
	return vm.Outcome{
		Kind: vm.NotStarted, Message: fmt.Sprintf("tart exited with %d and says: %s%s", end.Code, last, hints(end.Tail)),
		NoSession: sessionless(end.Tail),
	}
}

func cleanEnd(tail, last string) vm.Outcome {
	kind, line, ok := latest(tail, cleanEnds())
	switch {
	case !ok && last == "":
		return vm.Outcome{Kind: vm.Crashed, Message: "tart ended without a word about the guest"}
	case !ok:
		return vm.Outcome{Kind: vm.Crashed, Message: last}
	case kind == vm.Stopped:
		return vm.Outcome{Kind: kind, Message: "the VM was stopped from the host"}
	}
	return vm.Outcome{Kind: kind, Message: line}
}

// latest finds the last line that is one of the sentences.
func latest(tail string, known []sentence) (vm.OutcomeKind, string, bool) {
	lines := strings.Split(tail, "\n")
	for _, line := range slices.Backward(lines) {
		low := strings.ToLower(line)
		for _, s := range known {
			if !slices.ContainsFunc(s.words, func(w string) bool { return !strings.Contains(low, w) }) {
				return s.kind, oneLine(line), true
			}
		}
	}
	return "", "", false
}

// lastLine is the last line with something on it, bounded.
func lastLine(tail string) string {
	lines := strings.Split(strings.TrimSpace(tail), "\n")
	return oneLine(lines[len(lines)-1])
}
