package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Host is what Pods can share on this host: allocatable, and how many guests run
// at once; and what it asks of Pods.
type Host struct {
	CPUs        int
	MemoryBytes int64
	MaxVMs      int
	// MilliCPUs is what of a CPU is left beyond whole ones, too; 0: nothing is.
	MilliCPUs int64
	// StorageBytes is what the disks of guests may grow to; 0: as they like.
	StorageBytes int64
	// HostPaths lists the directories below which volumes of the type hostPath may be.
	HostPaths []string
	// Pressures are the conditions of the Node that keep Pods away. Nil: there are none.
	Pressures func() []corev1.NodeConditionType
	// Node reads the Node object, with the labels that others gave it. Nil: selectors of
	// Pods are not looked at again.
	Node func(ctx context.Context) (*corev1.Node, error)
}

// mebibyte is the unit of guests' memory.
const mebibyte = 1 << 20

// ShapeOf gives a Pod its VM: limits, else requests, else an even share of
// the host; never above what the host can give. CPUs are whole, rounded up; memory
// is whole mebibytes, rounded down. The disk only grows. It is enough for all containers
// that run at the same time.
func ShapeOf(p *corev1.Pod, h Host) vm.Shape {
	share := max(1, h.MaxVMs)
	cpus := within(most(p, corev1.ResourceCPU, wanted), int64(max(1, h.CPUs)), int64(h.CPUs/share))
	memory := within(most(p, corev1.ResourceMemory, wanted), max(mebibyte, h.MemoryBytes), h.MemoryBytes/int64(share))
	storage := int64(maxDiskBytes)
	if h.StorageBytes > 0 {
		storage = min(storage, h.StorageBytes)
	}
	return vm.Shape{
		CPUs:        int(max(1, cpus)),
		MemoryBytes: max(mebibyte, memory/mebibyte*mebibyte),
		DiskBytes:   within(most(p, corev1.ResourceEphemeralStorage, wanted), storage, 0),
	}
}

// leastGuestBytes is what a macOS guest needs at least of a Pod that asks for nothing.
const leastGuestBytes = 4 << 30

// MemoryNeed is what memory the Pod's VM can do with: what the Pod requests at least,
// its shape at most. One that asks for nothing takes what is left. Its VM never has less than
// its image's minimum; one that the host does not have counts as all of it.
func MemoryNeed(p *corev1.Pod, h Host, image int64) (least, wanted int64) {
	wanted = ShapeOf(p, h).MemoryBytes
	least = min(wanted, leastGuestBytes)
	asked := most(p, corev1.ResourceMemory, requested)
	if bytes := counted(corev1.ResourceMemory, asked); bytes > 0 {
		least = min(wanted, bytes/mebibyte*mebibyte)
	}
	image = min(image, h.MemoryBytes-Overhead(p))
	return max(least, image), max(wanted, image)
}

// maxDiskBytes keeps absurd sizes within numbers: 8 TiB is more than any Mac has.
const maxDiskBytes = 8 << 40

// within is a quantity in whole units, rounded up, at most limit; otherwise when it
// is not set. It is compared before it is read, as huge ones fit no integer.
func within(q resource.Quantity, limit, otherwise int64) int64 {
	switch {
	case q.Sign() <= 0:
		return min(otherwise, limit)
	case q.CmpInt64(limit) >= 0:
		return limit
	}
	return q.Value()
}

func wanted(c corev1.Container, name corev1.ResourceName) resource.Quantity {
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		if q, ok := list[name]; ok && q.Sign() > 0 {
			return q
		}
	}
	return resource.Quantity{}
}

// requested is what the API holds a container to; requests default to limits there.
func requested(c corev1.Container, name corev1.ResourceName) resource.Quantity {
	if q, ok := c.Resources.Requests[name]; ok {
		return q
	}
	return c.Resources.Limits[name]
}

// Promised is what the scheduler counts of one resource: requests, and what the Pod's
// class takes besides.
func Promised(p *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	sum := most(p, name, requested).DeepCopy()
	sum.Add(p.Spec.Overhead[name])
	return sum
}

// Overhead is the memory in bytes that a VM takes of the host besides the guest's own.
func Overhead(p *corev1.Pod) int64 {
	return counted(corev1.ResourceMemory, p.Spec.Overhead[corev1.ResourceMemory])
}

// most is the greatest sum of what containers have that run at the same time, as a kubelet
// counts it: each init container with the sidecars before it, and all others with all of them.
func most(p *corev1.Pod, name corev1.ResourceName, of func(corev1.Container, corev1.ResourceName) resource.Quantity) resource.Quantity {
	var greatest, sidecars resource.Quantity
	for _, c := range p.Spec.InitContainers {
		with := sidecars.DeepCopy()
		with.Add(of(c, name))
		if state.IsSidecar(c) {
			sidecars = with
		}
		greatest = greater(greatest, with)
	}
	for _, c := range p.Spec.Containers {
		sidecars.Add(of(c, name))
	}
	return greater(greatest, sidecars)
}

func greater(a, b resource.Quantity) resource.Quantity {
	if b.Cmp(a) > 0 {
		return b
	}
	return a
}
