// Package allocation keeps what the VMs of a host hold of its memory, and what Pods
// were promised: no Pod is admitted, and no VM is made, for which there is no room
// beside the others.
package allocation

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// Amount of what the scheduler counts.
type Amount struct{ MilliCPUs, MemoryBytes int64 }

// Need is what memory a Pod's VM can do with, in bytes.
type Need struct{ Least, Wanted int64 }

// holding is what one Pod has.
type holding struct {
	// requests are what it was admitted with.
	requests Amount
	// memory of its VM in bytes; 0: it has none yet.
	memory int64
	// waits for more than it was promised, as its image needs that. Where two do, neither
	// must wait for what the other was promised.
	waits bool
}

// refusal says why a Pod with these requests does not fit beside those that were
// admitted, in the words of a kubelet; nil: it fits. An amount of 0 has no bound.
func refusal(capacity Amount, others []holding, requests Amount) *state.Failure {
	var used Amount
	for _, o := range others {
		used.MilliCPUs += o.requests.MilliCPUs
		used.MemoryBytes += o.requests.MemoryBytes
	}
	for _, r := range []struct {
		name                   corev1.ResourceName
		wanted, used, capacity int64
	}{
		{corev1.ResourceCPU, requests.MilliCPUs, used.MilliCPUs, capacity.MilliCPUs},
		{corev1.ResourceMemory, requests.MemoryBytes, used.MemoryBytes, capacity.MemoryBytes},
	} {
		if r.wanted > 0 && r.capacity > 0 && r.wanted > r.capacity-r.used {
			return &state.Failure{Reason: "OutOf" + string(r.name), Message: state.NotEnough(r.name, r.wanted, r.used, r.capacity)}
		}
	}
	return nil
}

// taken is the memory that others hold, or were promised.
func taken(others []holding) int64 {
	var sum int64
	for _, o := range others {
		if !o.waits {
			sum += max(o.memory, o.requests.MemoryBytes)
		}
	}
	return sum
}

// fit is the memory for a VM beside the others'; false: there is not enough for it.
func fit(capacity int64, others []holding, n Need) (int64, bool) {
	if capacity <= 0 {
		return n.Wanted, true
	}
	given := min(n.Wanted, capacity-taken(others))
	return given, given >= n.Least
}
