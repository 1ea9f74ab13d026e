// Package macnode says what a Mac is as a Node: its labels, its taints and what it has
// for Pods. The agent registers itself so, and the manager foretells it of Macs that
// are yet to come. Pure: nothing is read here.
package macnode

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/macfleet/macfleet/internal/converge/document"
)

const (
	// VMResource is the extended resource of which a Node has one for each guest that
	// may run.
	VMResource corev1.ResourceName = "macfleet.dev/macos-vm"

	// OperatingSystem of every Mac.
	OperatingSystem = "darwin"
	// Architecture of every Mac.
	Architecture = "arm64"

	fleetLabel = "tuist.dev/fleet"
	taintKey   = "tuist.dev/macos"
)

// What the host keeps for itself: macOS, the agent, and for each guest what its
// process needs beyond the guest's memory.
const (
	reservedMilliCPU     = 500
	reservedMemoryBytes  = 2 << 30
	reservedStorageBytes = 20 << 30
)

// Hardware of a Mac, as far as Pods have something of it.
type Hardware struct {
	CPUs        int
	MemoryBytes int64
	// DiskBytes of the volume that guests are on.
	DiskBytes int64
}

// Labels are the profile's, and what the Mac is. What is not known of the host is left
// out.
func Labels(h document.Host, profile map[string]string) map[string]string {
	labels := maps.Clone(profile)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelOSStable] = OperatingSystem
	labels[corev1.LabelArchStable] = Architecture
	for name, value := range map[string]string{
		corev1.LabelHostname:           h.Name,
		corev1.LabelTopologyZone:       h.Zone,
		corev1.LabelInstanceTypeStable: h.ServerType,
		fleetLabel:                     h.Fleet,
	} {
		if value != "" {
			labels[name] = value
		}
	}
	return labels
}

// Taints are those of the configuration; where it says nothing, one keeps Pods away
// that do not ask for macOS. An empty list asks for none.
func Taints(n document.Node) []corev1.Taint {
	if n.Taints == nil {
		return []corev1.Taint{{Key: taintKey, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	taints := []corev1.Taint{}
	for _, t := range n.Taints {
		taints = append(taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return taints
}

// Capacity is what the Mac has.
func Capacity(h Hardware, n document.Node) corev1.ResourceList {
	vms := *resource.NewQuantity(int64(max(1, n.MaxVMs)), resource.DecimalSI)
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(h.CPUs), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(h.MemoryBytes, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(h.DiskBytes, resource.BinarySI),
		corev1.ResourcePods:             vms,
		VMResource:                      vms,
	}
}

// Allocatable is the capacity without what the host keeps: what Pods can have.
func Allocatable(h Hardware, n document.Node) corev1.ResourceList {
	list := Capacity(h, n)
	for name, reserve := range map[corev1.ResourceName]*resource.Quantity{
		corev1.ResourceCPU:              resource.NewMilliQuantity(reservedMilliCPU, resource.DecimalSI),
		corev1.ResourceMemory:           resource.NewQuantity(reservedMemoryBytes, resource.BinarySI),
		corev1.ResourceEphemeralStorage: resource.NewQuantity(reservedStorageBytes, resource.BinarySI),
	} {
		left := list[name].DeepCopy()
		left.Sub(*reserve)
		if left.Sign() < 0 {
			left = *resource.NewQuantity(0, left.Format)
		}
		list[name] = left
	}
	return list
}
