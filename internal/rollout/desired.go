// Package rollout decides how Macs that run already come to a new state: what a
// profile asks of each of them, which of them may be updated now, and when to stop. It is pure:
// reading the Machines and writing the permits down is the profile controller's,
// pushing to a Mac the machine controller's.
package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
)

const (
	// defaultMaxVMs is what Apple's licence allows.
	defaultMaxVMs = 2

	// defaultGCHighPercent of the volume in use lets images be removed, as a kubelet's.
	defaultGCHighPercent = 85
	// defaultGCLowPercent is where that ends.
	defaultGCLowPercent = 80

	// macosTaint keeps Pods away that do not ask for macOS.
	macosTaint = "tuist.dev/macos"
)

// Desired is what a profile asks of each of its Macs: the part of the document
// that all of them share. It is the only builder there is, for first bootstraps,
// later changes and checks alike, so that no field can reach one and miss another.
// clientCA is document.Kubelet's, the same for the whole cluster.
func Desired(profile *infrav1.MacNodeProfile, agent document.Agent, clientCA []byte) document.Desired {
	spec := profile.Spec
	return document.Desired{
		Schema: document.DesiredSchema,
		Agent:  agent,
		Node: document.Node{
			Labels: plain(spec.Node.Labels),
			Taints: taints(spec.Node.Taints),
			MaxVMs: cmp.Or(int(spec.Node.MaxVMs), defaultMaxVMs),
		},
		Mac: document.Mac{
			Tart:            tart(spec.Tart),
			AutoLogin:       ptr.Deref(spec.Session.AutoLogin, true),
			ScreenSharing:   spec.Session.ScreenSharing,
			AuthorizedKeys:  slices.Clone(spec.SSHAccess.AuthorizedKeys),
			GuestQuotaBytes: quota(spec.Storage),
			Network:         network(spec.Network),
			ProofReboot:     ptr.Deref(spec.ProofReboot, true),
		},
		Images: document.Images{
			PrePull:       slices.Clone(spec.Images.PrePull),
			GCHighPercent: cmp.Or(int(spec.Images.GCHighPercent), defaultGCHighPercent),
			GCLowPercent:  cmp.Or(int(spec.Images.GCLowPercent), defaultGCLowPercent),
		},
		Pods:    document.Pods{HostPaths: slices.Clone(spec.Pods.HostPaths)},
		Kubelet: document.Kubelet{Port: kubeletPort(spec.Node.KubeletPort), ClientCA: slices.Clone(clientCA)},
	}
}

// Revision names what Desired asks for.
func Revision(profile *infrav1.MacNodeProfile, agent document.Agent, clientCA []byte) string {
	return document.Revision(Desired(profile, agent, clientCA))
}

// kubeletPort is the profile's; the usual one is left out, so that a profile that names
// it and one that does not ask for the same.
func kubeletPort(wanted *int32) *int {
	if wanted == nil || *wanted == document.DefaultKubeletPort {
		return nil
	}
	return ptr.To(int(*wanted))
}

// taints are the profile's; only a profile that says nothing gets the default.
func taints(wanted *[]infrav1.Taint) []document.Taint {
	if wanted == nil {
		return []document.Taint{{Key: macosTaint, Value: "true", Effect: string(corev1.TaintEffectNoSchedule)}}
	}
	out := make([]document.Taint, 0, len(*wanted))
	for _, taint := range *wanted {
		out = append(out, document.Taint{Key: taint.Key, Value: taint.Value, Effect: string(taint.Effect)})
	}
	return out
}

func tart(release *infrav1.TartRelease) *document.Tart {
	if release == nil {
		return nil
	}
	return &document.Tart{Version: release.Version, URL: release.Source, SHA256: release.SHA256, TeamID: release.TeamID}
}

func quota(storage infrav1.StorageSettings) int64 {
	if storage.Quota == nil {
		return 0
	}
	return storage.Quota.Value()
}

func network(settings infrav1.NetworkSettings) document.Network {
	n := document.Network{
		Subnet:      cmp.Or(settings.Subnet, document.DefaultSubnet),
		DenyPrivate: ptr.Deref(settings.GuestEgress.DenyPrivate, true),
		SSHFrom:     slices.Clone(settings.SSHIngress.Allow),
	}
	for _, rule := range settings.GuestEgress.Allow {
		allow := document.Allow{CIDR: rule.CIDR}
		allow.Ports = ports(rule.Ports)
		n.Allow = append(n.Allow, allow)
	}
	for _, rule := range settings.HostIngress.Allow {
		n.HostAllow = append(n.HostAllow, document.Allow{CIDR: rule.CIDR, Ports: ports(rule.Ports)})
	}
	return n
}

func ports(wanted []int32) []int {
	var out []int
	for _, port := range wanted {
		out = append(out, int(port))
	}
	return out
}

// Check says what of a profile cannot be, beyond what the API server refuses: the
// first field that no Mac could apply, or nil.
func Check(profile *infrav1.MacNodeProfile) error {
	d := Desired(profile, document.Agent{SHA256: strings.Repeat("0", 64)}, nil)
	// A Host that is valid, so that only the shared part can be refused.
	d.Host = document.Host{Name: "any", ProviderID: "any", Epoch: 1, User: "any"}
	err := d.Validate()
	if refused, ok := errors.AsType[*document.FieldError](err); ok {
		return fmt.Errorf("%s %s", refused.Field, refused.Reason)
	}
	if err != nil {
		return err
	}
	if err := checkLabels(d.Node.Labels); err != nil {
		return err
	}
	return checkTaints(d.Node.Taints)
}

// plain are the labels as texts; none stay none, for the revision's sake.
func plain(labels map[string]infrav1.LabelValue) map[string]string {
	if labels == nil {
		return nil
	}
	out := make(map[string]string, len(labels))
	for key, value := range labels {
		out[key] = string(value)
	}
	return out
}
