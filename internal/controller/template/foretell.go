package template

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/macnode"
	"github.com/macfleet/macfleet/internal/rollout"
)

// cluster-autoscaler imagines a kube-proxy on each Node that it has yet to see
// (cloudprovider.BuildKubeProxy), and takes what it needs off the capacity.
const (
	kubeProxyMilliCPU = 100
	kubeProxyPods     = 1
)

// foretell is the status that a template is to have. What is not known of the type, now
// or any more, leaves the capacity as it was.
func foretell(was infrav1.ScalewayAppleSiliconMachineTemplateStatus, kind cloud.ServerType, profile *infrav1.MacNodeProfile) infrav1.ScalewayAppleSiliconMachineTemplateStatus {
	now := *was.DeepCopy()
	now.NodeInfo = infrav1.TemplateNodeInfo{Architecture: macnode.Architecture, OperatingSystem: macnode.OperatingSystem}
	if kind.Cores > 0 && kind.MemoryBytes > 0 && kind.DiskBytes > 0 {
		want := rollout.Desired(profile, document.Agent{}, nil)
		now.Capacity = capacity(hardware(kind, want.Mac.GuestQuotaBytes), want.Node)
	}
	return now
}

// hardware of a Mac of the type, whose guests are on a volume of their own where the
// profile asks for one.
func hardware(kind cloud.ServerType, quota int64) macnode.Hardware {
	h := macnode.Hardware{CPUs: kind.Cores, MemoryBytes: int64(host.MemoryOf(kind)), DiskBytes: int64(kind.DiskBytes)} // a Mac has gigabytes
	if quota > 0 {
		h.DiskBytes = min(h.DiskBytes, quota)
	}
	return h
}

// capacity is what Pods can have, which an autoscaler takes capacity for, and what it
// takes off for the kube-proxy that no Mac runs.
func capacity(h macnode.Hardware, n document.Node) corev1.ResourceList {
	list := macnode.Allocatable(h, n)
	for name, more := range map[corev1.ResourceName]*resource.Quantity{
		corev1.ResourceCPU:  resource.NewMilliQuantity(kubeProxyMilliCPU, resource.DecimalSI),
		corev1.ResourcePods: resource.NewQuantity(kubeProxyPods, resource.DecimalSI),
	} {
		sum := list[name].DeepCopy()
		sum.Add(*more)
		list[name] = sum
	}
	return list
}
