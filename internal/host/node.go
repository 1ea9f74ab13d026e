package host

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// agentVersionMark is in the kubelet version that our agents show.
const agentVersionMark = "-macfleet"

// MacNode reports that a Node was made for a Mac of ours: its providerID is of our
// form or, where it has none, it runs darwin and bears the label of a fleet or the
// version of our agent. What runs darwin beside that may be anybody's.
func MacNode(n *corev1.Node) bool {
	if id := n.Spec.ProviderID; id != "" {
		return strings.HasPrefix(id, infrav1.ProviderIDPrefix)
	}
	if n.Labels[corev1.LabelOSStable] != "darwin" {
		return false
	}
	_, fleet := n.Labels[infrav1.FleetLabel]
	return fleet || strings.Contains(n.Status.NodeInfo.KubeletVersion, agentVersionMark)
}

// ControlPlaneNode reports that a Node is of the control plane. NodeRestriction lets
// no node give itself these labels.
func ControlPlaneNode(n *corev1.Node) bool {
	for _, label := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		if _, is := n.Labels[label]; is {
			return true
		}
	}
	return false
}

// NodeOfHost reports that a Node is the host's Mac.
func NodeOfHost(n *corev1.Node, h *Host) bool {
	return h.Spec.ServerID != "" && n.Spec.ProviderID == ProviderID(h.Spec.Zone, h.Spec.ServerID)
}

// NodeClaims are the hosts that a Node may be: the one its providerID names, and
// those whose claim bears its name.
func NodeClaims(n *corev1.Node, hosts []Host) []*Host {
	var found []*Host
	for i := range hosts {
		h := &hosts[i]
		if NodeOfHost(n, h) || h.Spec.ClaimRef != nil && h.Spec.ClaimRef.Name == n.Name {
			found = append(found, h)
		}
	}
	return found
}

// haveNode reports that a live Machine accounts for a Node: by its name, or by the
// server that its providerID names.
func (o Owners) haveNode(n *corev1.Node) bool {
	if len(o.names[n.Name]) > 0 {
		return true
	}
	server, is := strings.CutPrefix(n.Spec.ProviderID, infrav1.ProviderIDPrefix)
	if !is {
		return false
	}
	zone, id, _ := strings.Cut(server, "/")
	return o.servers[id] || len(o.claims[ObjectName(zone, id)]) > 0
}

// KeepNode says why a Node stays whatever becomes of its Cluster; empty: it is a
// Mac's that no Machine has. Claims are those of NodeClaims. A Node that may belong
// to a host that is claimed or handed over stays, also where the claim's Machine is
// gone: that is a person's to decide.
func KeepNode(n *corev1.Node, claims []*Host, owners Owners) string {
	switch {
	case !MacNode(n):
		return "it is no Mac's"
	case ControlPlaneNode(n):
		return "it is of the control plane"
	case owners.haveNode(n):
		return "a live Machine accounts for it"
	}
	for _, h := range claims {
		switch {
		case h.Spec.Record.HandedOverAt != nil:
			return fmt.Sprintf("host %s is another management cluster's", h.Name)
		case h.Spec.ClaimRef != nil && h.Spec.Release == nil:
			return fmt.Sprintf("host %s is claimed", h.Name)
		}
	}
	return ""
}

// NodeWaits says why a Node that no Machine has is left for now; empty: it may be
// deleted. Its Clusters are the one that it is known to be of, or else all of ours.
func NodeWaits(clusters []ClusterState) string {
	if len(clusters) == 0 {
		return "there is no Cluster here that it could be of"
	}
	for _, c := range clusters {
		switch {
		case c.Missing:
			return fmt.Sprintf("Cluster %s/%s is not here", c.Namespace, c.Name)
		case c.Paused:
			return fmt.Sprintf("Cluster %s/%s is paused", c.Namespace, c.Name)
		}
	}
	return ""
}
