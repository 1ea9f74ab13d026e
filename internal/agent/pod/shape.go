package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Host is what Pods can share on this host: allocatable, and how many guests run
// at once.
type Host struct {
	CPUs        int
	MemoryBytes int64
	MaxVMs      int
}

// ShapeOf gives a container its machine: limits, else requests, else an even share
// of the host; never above what the host can give. CPUs are whole, rounded up.
func ShapeOf(c corev1.Container, h Host) vm.Shape {
	share := max(1, h.MaxVMs)
	cpus := int64(max(1, h.CPUs/share))
	memory := h.MemoryBytes / int64(share)
	if q, ok := wanted(c, corev1.ResourceCPU); ok {
		cpus = q.Value()
	}
	if q, ok := wanted(c, corev1.ResourceMemory); ok {
		memory = q.Value()
	}
	return vm.Shape{
		CPUs:        int(min(max(1, cpus), int64(max(1, h.CPUs)))),
		MemoryBytes: min(memory, h.MemoryBytes),
	}
}

func wanted(c corev1.Container, name corev1.ResourceName) (resource.Quantity, bool) {
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		if q, ok := list[name]; ok && !q.IsZero() {
			return q, true
		}
	}
	return resource.Quantity{}, false
}
