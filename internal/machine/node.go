package machine

import (
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

// SilentLimit is how long a Node may be not Ready before its Mac is given a fresh
// token: its certificate may have expired while it, or we, were away.
const SilentLimit = 10 * time.Minute

// nodeIsSilent reports whether the Node of this Mac has not been Ready for too long.
func (s Snapshot) nodeIsSilent(now time.Time) bool {
	since, unready := s.UnreadySince()
	return unready && now.Sub(since) >= SilentLimit
}

// UnreadySince says since when the Node of this Mac is not Ready. A Node that
// says it is another Mac is not ours to mend.
func (s Snapshot) UnreadySince() (time.Time, bool) {
	node := s.Node
	if node == nil || workload.NodeReady(node) {
		return time.Time{}, false
	}
	if id := node.Spec.ProviderID; id != "" && id != ProviderID(s.Host) {
		return time.Time{}, false
	}
	return workload.ReadinessChanged(node), true
}

// ReadyNode reports that the Mac of the claimed host is a Node, and Ready, also where
// spec.providerID does not say so yet.
func (s Snapshot) ReadyNode() bool {
	return s.Node != nil && host.NodeOfHost(s.Node, s.Host) && workload.NodeReady(s.Node)
}

// JudgeNode says what has become of the Machine's Node.
func JudgeNode(s Snapshot) Finding {
	node := s.Node
	switch {
	case node == nil && s.nodeWasThere():
		return False(infrav1.ReasonNodeMissing, "Node %s is gone", s.Machine.Name)
	case node == nil:
		return False(infrav1.ReasonWaitingForNode, "Node %s has not registered yet", s.Machine.Name)
	case node.Spec.ProviderID != "" && node.Spec.ProviderID != s.Machine.Spec.ProviderID:
		return False(infrav1.ReasonProviderIDMismatch, "Node %s says it is %s", node.Name, node.Spec.ProviderID)
	case node.Spec.ProviderID == "":
		return False(infrav1.ReasonNodeNotReady, "Node %s has no providerID yet", node.Name)
	case workload.NodeSilent(node):
		return False(infrav1.ReasonNodeUnreachable, "Node %s is not heard of, as the control plane noticed at %s: the Mac is off, cut off, or its agent does not run", node.Name, workload.ReadinessChanged(node).UTC().Format(time.RFC3339))
	case !workload.NodeReady(node):
		return False(infrav1.ReasonNodeNotReady, "Node %s is not Ready", node.Name)
	}
	return True(infrav1.NodeReadyCondition)
}

// nodeWasThere reports whether the Node existed before, as core or our own
// condition remembers it.
func (s Snapshot) nodeWasThere() bool {
	if s.Owner != nil && s.Owner.Status.NodeRef.IsDefined() {
		return true
	}
	switch conditions.GetReason(s.Machine, infrav1.NodeReadyCondition) {
	case infrav1.NodeReadyCondition, infrav1.ReasonNodeNotReady, infrav1.ReasonNodeUnreachable, infrav1.ReasonNodeMissing, infrav1.ReasonProviderIDMismatch:
		return true
	}
	return false
}
