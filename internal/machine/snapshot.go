// Package machine decides about Machines: why no host can be claimed, whether a Mac is
// pushed to, what its Node's state means, what a deletion does, and what the status
// says. Pure functions of what the machine controller has read.
package machine

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
)

// Snapshot is what was read of one Machine and what belongs to it. Only the Machine is
// always there.
type Snapshot struct {
	Machine *infrav1.ScalewayAppleSiliconMachine
	// Owner is the Cluster API Machine; nil until core has set the reference.
	Owner   *clusterv1.Machine
	Cluster *clusterv1.Cluster
	// Zones of the Cluster, first one first.
	Zones []string
	// Host carries the Machine's claim; nil until then.
	Host *host.Host
	// Node bears the Machine's name; nil when there is none.
	Node *corev1.Node
}

// Token of the claim, empty without spec.hostRef.
func (s Snapshot) Token() string {
	if s.Machine.Spec.HostRef == nil {
		return ""
	}
	return s.Machine.Spec.HostRef.ClaimToken
}

// ClaimRef is the claim that spec.hostRef means, as the host bears it.
func (s Snapshot) ClaimRef() *infrav1.ClaimReference {
	ref := host.ClaimOf(s.Machine)
	ref.Cluster = ClusterName(s.Machine)
	return &ref
}

// Leaving reports whether the Machine or its Cluster is on its way out.
func (s Snapshot) Leaving() bool {
	switch {
	case !s.Machine.DeletionTimestamp.IsZero():
		return true
	case s.Owner != nil && !s.Owner.DeletionTimestamp.IsZero():
		return true
	}
	return s.Cluster != nil && !s.Cluster.DeletionTimestamp.IsZero()
}

// Zone is where the Mac must be: the Machine's own word, else its failure
// domain, else the Cluster's first zone. No other zone is ever used.
func (s Snapshot) Zone() string {
	if s.Machine.Spec.Zone != "" {
		return s.Machine.Spec.Zone
	}
	if s.Owner != nil && s.Owner.Spec.FailureDomain != "" {
		return s.Owner.Spec.FailureDomain
	}
	if len(s.Zones) > 0 {
		return s.Zones[0]
	}
	return ""
}

// Fleet is the fleet's name: the Machine's own word, else the MachineDeployment's
// name, else the Cluster's.
func (s Snapshot) Fleet() string {
	if s.Machine.Spec.FleetName != "" {
		return s.Machine.Spec.FleetName
	}
	if s.Owner != nil && s.Owner.Labels[clusterv1.MachineDeploymentNameLabel] != "" {
		return s.Owner.Labels[clusterv1.MachineDeploymentNameLabel]
	}
	return ClusterName(s.Machine)
}

// KubernetesVersion is the one that the Machine names, and its Node is to show: core
// compares the two. Empty: it names none.
func (s Snapshot) KubernetesVersion() string {
	if s.Owner == nil {
		return ""
	}
	return s.Owner.Spec.Version
}

// RequestedRestart names the restart of the agent that is asked for and was not made
// yet, or nothing. The Mac remembers the last one it made, so a push that is
// repeated restarts nothing twice.
func (s Snapshot) RequestedRestart() string {
	asked := s.Machine.Annotations[infrav1.RestartAgentAnnotation]
	if asked == s.Machine.Status.Applied.Restart || s.Leaving() {
		return ""
	}
	return asked
}

// AppliedBy is what a push that succeeded has proved; the last restart is remembered
// while none is asked for.
func (s Snapshot) AppliedBy(revision, agent, restart string) infrav1.AppliedStatus {
	last := s.Machine.Status.Applied
	return infrav1.AppliedStatus{Revision: revision, Agent: agent, Restart: cmp.Or(restart, last.Restart), SSHKey: last.SSHKey}
}

// ShowsApplied reports whether the Machine already says what a push achieved. Then a
// need that remains has come up since.
func (s Snapshot) ShowsApplied(want document.Desired) bool {
	applied := s.AppliedBy(document.Revision(want), want.Agent.SHA256, want.Restart)
	return s.Machine.Spec.ProviderID != "" && s.Machine.Status.Applied == applied
}

// Drifted reports that a check found the Mac changed behind our back.
func (s Snapshot) Drifted() bool { return len(s.Machine.Status.Drift.Steps) > 0 }

// updatePermitted reports that the profile controller lets this Mac be changed to the
// revision, and that there is something to change or to mend.
func (s Snapshot) updatePermitted(revision string) bool {
	permit := s.Machine.Annotations[infrav1.UpdateAnnotation]
	return permit == revision && !s.Leaving() && (s.Machine.Status.Applied.Revision != revision || s.Drifted())
}

// TakingOver reports that the Mac still runs the first system's agent, as far as anybody
// remembers. It has nothing to join with.
func (s Snapshot) TakingOver() bool {
	return host.TakesOver(s.Machine) && s.Machine.Status.Applied.Agent == ""
}

// KeptByUs reports that this system's agent keeps the Node. One of a Mac that is
// taken over is Ready by the first system's, and ours has yet to use its token.
func (s Snapshot) KeptByUs() bool {
	return !host.TakesOver(s.Machine) || host.KeptByAgent(s.Node)
}

// InfrastructureProvisioned reports that core waits for the Cluster's infrastructure no more.
func InfrastructureProvisioned(cluster *clusterv1.Cluster) bool {
	return cluster != nil && ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false)
}

// ClusterName is the Cluster that core says the Machine belongs to.
func ClusterName(m *infrav1.ScalewayAppleSiliconMachine) string {
	return m.Labels[clusterv1.ClusterNameLabel]
}

// ProviderID is the providerID of a claimed host.
func ProviderID(h *host.Host) string { return host.ProviderID(h.Spec.Zone, h.Spec.ServerID) }

// OrdersServer reports that the Machine has its own server made.
func OrdersServer(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return m.Spec.Acquisition == infrav1.Order
}

// BeingMoved reports that clusterctl is about to delete this copy of the Machine,
// because another management cluster has it now.
func BeingMoved(m *infrav1.ScalewayAppleSiliconMachine) bool {
	_, is := m.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return is
}

// MayDisturb reports that the Mac may be rebooted or wiped to mend it: its Machine and
// its Cluster stay.
func (s Snapshot) MayDisturb() bool { return s.Cluster != nil && !s.Leaving() }

// SameForDisruption reports that a Machine that was read again lives, still means this
// host, is as far with it as it was when it was judged, and nobody has paused or is
// moving it.
func (s Snapshot) SameForDisruption(fresh *infrav1.ScalewayAppleSiliconMachine) bool {
	ref := fresh.Spec.HostRef
	return fresh.UID == s.Machine.UID && ref != nil && ref.ClaimToken == s.Token() &&
		fresh.DeletionTimestamp.IsZero() && fresh.Spec.ProviderID == s.Machine.Spec.ProviderID && !BeingMoved(fresh) && !annotations.HasPaused(fresh)
}
