package tart

import (
	"fmt"
	"strings"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Classify reads how `tart run` ended. The exit code alone says too little: tart
// exits 0 on a guest's crash and on a lost network too.
func (d *Driver) Classify(end vm.RunEnd) vm.Outcome {
	last := lastLine(end.Tail)
	switch {
	case end.Signal != 0:
		return vm.Outcome{Kind: vm.Killed, Message: fmt.Sprintf("tart was ended by signal %d", end.Signal)}
	case end.Code == 0:
		return cleanExit(end.Tail, last)
	case isLimit(end.Tail):
		return vm.Outcome{Kind: vm.Limited, Message: last}
	}
	return vm.Outcome{Kind: vm.NotStarted, Message: fmt.Sprintf("tart exited with %d: %s", end.Code, last)}
}

func cleanExit(tail, last string) vm.Outcome {
	low := strings.ToLower(tail)
	switch {
	case strings.Contains(low, "due to error"), strings.Contains(low, "attachment was disconnected"), strings.HasPrefix(strings.ToLower(last), "error"):
		return vm.Outcome{Kind: vm.Crashed, Message: last}
	case strings.Contains(low, "stopping vm"):
		return vm.Outcome{Kind: vm.Stopped, Message: "the VM was stopped from the host"}
	}
	return vm.Outcome{Kind: vm.ShutDown, Message: last}
}

func isLimit(tail string) bool {
	return strings.Contains(tail, "exceeds the system limit") ||
		strings.Contains(tail, "maximum supported number of active virtual machines")
}

// lastLine is the last line with something on it, bounded.
func lastLine(tail string) string {
	lines := strings.Split(strings.TrimSpace(tail), "\n")
	return oneLine(lines[len(lines)-1])
}
