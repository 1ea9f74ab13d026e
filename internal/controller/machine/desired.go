package machine

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
)

const (
	// defaultMaxVMs is what Apple's licence allows.
	defaultMaxVMs = 2

	// macosTaint keeps Pods that do not ask for macOS away.
	macosTaint = "tuist.dev/macos"
)

// desired builds the one document that a Mac is converged to, for its first
// bootstrap and for each later run. It holds no join material.
func desired(v *visit, profile *infrav1.MacNodeProfile, agent Agent) document.Desired {
	return document.Desired{
		Schema: document.DesiredSchema,
		Host: document.Host{
			Name:       v.machine.Name,
			ProviderID: hostProviderID(v.host),
			Epoch:      v.host.Spec.Record.InstallEpoch,
			User:       v.staged.user,
			Address:    v.staged.address,
			Zone:       v.host.Spec.Zone,
			ServerType: v.host.Status.Server.Type,
			Fleet:      v.fleet(),
		},
		Agent: document.Agent{SHA256: agent.SHA256, Version: agent.Version},
		Node:  node(profile.Spec.Node),
		Mac:   document.Mac{Network: document.Network{Subnet: document.DefaultSubnet}},
	}
}

func node(settings infrav1.NodeSettings) document.Node {
	n := document.Node{
		Labels: maps.Clone(settings.Labels),
		Taints: taints(settings.Taints),
		MaxVMs: int(settings.MaxVMs),
	}
	if n.MaxVMs == 0 {
		n.MaxVMs = defaultMaxVMs
	}
	return n
}

// taints are the profile's; only a profile that says nothing gets the default.
func taints(wanted *[]corev1.Taint) []document.Taint {
	if wanted == nil {
		return []document.Taint{{Key: macosTaint, Value: "true", Effect: string(corev1.TaintEffectNoSchedule)}}
	}
	out := make([]document.Taint, 0, len(*wanted))
	for _, taint := range *wanted {
		out = append(out, document.Taint{Key: taint.Key, Value: taint.Value, Effect: string(taint.Effect)})
	}
	return out
}

// hostProviderID is the providerID of a claimed host.
func hostProviderID(h *host.Host) string { return host.ProviderID(h.Spec.Zone, h.Spec.ServerID) }
