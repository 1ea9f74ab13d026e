package state

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NoPodIP is the event's message for a Pod that would be reached by its IP. One that is not
// unique in the cluster is worse than none: Services would send what is meant for the Pod to
// whoever has it.
const NoPodIP = "The Pod has no IP, and no Service reaches it: its VM is on a network behind the Mac. kubectl port-forward reaches its ports"

// MissesPodIP reports that the Pod names ports, or asks for its own IP without a command:
// a command is told the address that its guest has behind the Mac.
func MissesPodIP(p *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c corev1.Container) bool {
		return len(c.Ports) > 0 || !RunsCommand(p) && slices.ContainsFunc(c.Env, ofPodIP)
	})
}

func ofPodIP(v corev1.EnvVar) bool {
	return v.ValueFrom != nil && v.ValueFrom.FieldRef != nil && strings.HasPrefix(v.ValueFrom.FieldRef.FieldPath, "status.podIP")
}
