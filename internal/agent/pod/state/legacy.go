package state

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// LegacyFinalizer was put on Pods by the first system's agent, which alone removed
	// it: a Pod of its time that keeps it is never deleted.
	LegacyFinalizer = "tart-kubelet.tuist.dev/vm-cleanup"
	// legacyNameLimit is the length of its VMs' names; a longer name ends in a dash and a
	// hash of eight characters instead.
	legacyNameLimit, legacyHashLength = 63, 8
	// LegacyExitUnknown is the message of the exit of a VM that it started.
	LegacyExitUnknown = "the VM was started by the agent before this one, and ended; how is not known"
)

// LegacyVM is the name of the Pod's VM where the first system's agent made it:
// <namespace>-<pod>, as containerID in the status has it. Empty: it did not.
func LegacyVM(p *corev1.Pod) string {
	if len(p.Status.ContainerStatuses) != 1 {
		return ""
	}
	name, is := strings.CutPrefix(p.Status.ContainerStatuses[0].ContainerID, containerIDPrefix)
	whole := p.Namespace + "-" + p.Name
	switch {
	case !is:
		return ""
	case name == whole:
		return name
	case len(whole) > legacyNameLimit && len(name) == legacyNameLimit && strings.HasPrefix(whole, name[:legacyNameLimit-legacyHashLength-1]):
		return name
	}
	return ""
}
