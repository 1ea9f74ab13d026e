package node

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/macnode"
)

const (
	// kubernetesVersion is the release of the client libraries: tools compare the
	// minor with that of the API server.
	kubernetesVersion = "v1.36.4"
	// versionLabel on a Node is the version of its agent. Written by macfleet.
	versionLabel = "macfleet.dev/agent-version"
)

// Self is what this Mac is, read once at start.
type Self struct {
	Config document.AgentConfig
	Facts  hostos.Facts
	Disk   hostos.Disk
	Tool   vm.Info
	// Version of the agent.
	Version string
}

// object is the Node as it is created. Everything in it is what a node may give
// itself under NodeRestriction.
func (s Self) object() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.Config.Host.Name, Labels: s.labels()},
		Spec:       corev1.NodeSpec{ProviderID: s.Config.Host.ProviderID, Taints: macnode.Taints(s.Config.Node)},
	}
}

func (s Self) labels() map[string]string {
	labels := macnode.Labels(s.Config.Host, s.Config.Node.Labels)
	if version := inName(s.Version); version != "" {
		labels[versionLabel] = version
	}
	return labels
}

// Capacity is what the Mac has.
func (s Self) Capacity() corev1.ResourceList { return macnode.Capacity(s.hardware(), s.Config.Node) }

// Allocatable is the capacity without what the host keeps.
func (s Self) Allocatable() corev1.ResourceList {
	return macnode.Allocatable(s.hardware(), s.Config.Node)
}

func (s Self) hardware() macnode.Hardware {
	return macnode.Hardware{CPUs: s.Facts.CPUs, MemoryBytes: s.Facts.MemoryBytes, DiskBytes: s.Disk.TotalBytes}
}

// Addresses of the Node: where the control plane reaches the Mac, and its name.
func (s Self) Addresses() []corev1.NodeAddress {
	h := s.Config.Host
	list := []corev1.NodeAddress{}
	if h.Address != "" {
		list = append(list, corev1.NodeAddress{Type: addressType(h.Address), Address: h.Address})
	}
	return append(list, corev1.NodeAddress{Type: corev1.NodeHostName, Address: h.Name})
}

// addressType: a kubelet's main address is its InternalIP, reachable from the
// control plane whatever network it is in.
func addressType(address string) corev1.NodeAddressType {
	if _, err := netip.ParseAddr(address); err != nil {
		return corev1.NodeInternalDNS
	}
	return corev1.NodeInternalIP
}

// endpoints are where the API server reaches the agent.
func (s Self) endpoints() corev1.NodeDaemonEndpoints {
	port := int32(s.Config.Kubelet.ListenPort()) // it was validated: 0 to 65535
	return corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}}
}

func (s Self) info() corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{
		MachineID:               strings.ToLower(s.Facts.PlatformUUID),
		SystemUUID:              s.Facts.PlatformUUID,
		BootID:                  s.Facts.BootSession,
		KernelVersion:           s.Facts.Kernel,
		OSImage:                 s.Facts.OSImage,
		ContainerRuntimeVersion: fmt.Sprintf("%s://%s", s.Tool.Name, s.Tool.Version),
		KubeletVersion:          cmp.Or(s.Config.Host.KubernetesVersion, kubeletVersion(s.Version)),
		OperatingSystem:         macnode.OperatingSystem,
		Architecture:            macnode.Architecture,
	}
}

// kubeletVersion is what a Node shows whose Machine names no version: semantic, with
// our own version as a pre-release that cannot break it: v1.36.4-macfleet.0.1.0.
func kubeletVersion(own string) string {
	if own = strings.Trim(inName(strings.TrimPrefix(own, "v")), "."); own == "" {
		return kubernetesVersion + "-macfleet"
	}
	return kubernetesVersion + "-macfleet." + own
}

// inName keeps of a version what a label's value may hold: a longer one, and the API server
// would refuse the Node.
func inName(version string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || ('0' <= r && r <= '9') || ('a' <= r && r <= 'z') || ('A' <= r && r <= 'Z') {
			return r
		}
		return '-'
	}, version)
	return strings.Trim(clean[:min(len(clean), content.LabelValueMaxLength)], ".-")
}
