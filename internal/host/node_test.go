package host

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

const nodeServer = "11111111-1111-4111-8111-111111111111"

func macNode(change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "mac-1", Labels: map[string]string{"kubernetes.io/os": "darwin", "tuist.dev/fleet": "builders"}},
		Spec:       corev1.NodeSpec{ProviderID: ProviderID("fr-par-1", nodeServer)},
	}
	if change != nil {
		change(n)
	}
	return n
}

func nodeHost(change func(*Host)) Host {
	h := Host{ObjectMeta: metav1.ObjectMeta{Name: "fr-par-1-" + nodeServer}}
	h.Spec.Zone, h.Spec.ServerID = "fr-par-1", nodeServer
	if change != nil {
		change(&h)
	}
	return h
}

// A Node is never taken for a Mac of ours because of its name, or because it runs
// darwin alone.
func TestWhatIsAMacsNode(t *testing.T) {
	for name, c := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"a joined Mac":         {macNode(nil), true},
		"without labels":       {macNode(func(n *corev1.Node) { n.Labels = nil }), true},
		"without a providerID": {macNode(func(n *corev1.Node) { n.Spec.ProviderID = "" }), true},
		"by its agent's version": {macNode(func(n *corev1.Node) {
			n.Spec.ProviderID = ""
			delete(n.Labels, "tuist.dev/fleet")
			n.Status.NodeInfo.KubeletVersion = "v1.36.4-macfleet.0.1.0"
		}), true},
		"somebody's darwin":    {macNode(func(n *corev1.Node) { n.Spec.ProviderID = ""; delete(n.Labels, "tuist.dev/fleet") }), false},
		"another vendor's Mac": {macNode(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu/i-1" }), false},
		"no system named": {macNode(func(n *corev1.Node) {
			n.Spec.ProviderID = ""
			delete(n.Labels, "kubernetes.io/os")
		}), false},
		"linux":                    {macNode(func(n *corev1.Node) { n.Spec.ProviderID = ""; n.Labels["kubernetes.io/os"] = "linux" }), false},
		"a Node that says nothing": {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}}, false},
		"a control plane without an id": {macNode(func(n *corev1.Node) {
			n.Spec.ProviderID = ""
			n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := MacNode(c.node); got != c.want {
				t.Errorf("MacNode = %t", got)
			}
		})
	}
}

func TestAnOrderIsNoNodes(t *testing.T) {
	order := nodeHost(func(h *Host) { h.Spec.ServerID = "" })
	if n := macNode(func(n *corev1.Node) { n.Spec.ProviderID = ProviderID("fr-par-1", "") }); NodeOfHost(n, &order) {
		t.Error("a Node without a server is the Mac of an order")
	}
}

func TestWhichNodesStay(t *testing.T) {
	at := metav1.NewMicroTime(time.Unix(0, 0))
	claim := &infrav1.ClaimReference{Cluster: "macs", Namespace: "fleet", Name: "mac-1", Token: "t"}
	claimed := nodeHost(func(h *Host) { h.Spec.ClaimRef = claim })
	released := nodeHost(func(h *Host) { h.Spec.ClaimRef = claim; h.Spec.Release = &infrav1.Release{Token: "t"} })
	moved := nodeHost(func(h *Host) { h.Spec.ClaimRef = claim; h.Spec.Record.HandedOverAt = &at })
	movedRebuilt := nodeHost(func(h *Host) { h.Spec.Record.HandedOverAt = &at })
	others := nodeHost(func(h *Host) {
		h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "fleet", Name: "mac-2", Token: "t"}
	})
	free, detached := nodeHost(nil), nodeHost(func(h *Host) { h.Spec.Record.DetachedAt = &at })
	machine := func(change func(*infrav1.ScalewayAppleSiliconMachine)) []infrav1.ScalewayAppleSiliconMachine {
		m := infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "other"}}
		change(&m)
		return []infrav1.ScalewayAppleSiliconMachine{m}
	}
	bare := func(n *corev1.Node) { n.Spec.ProviderID = "" }
	for name, c := range map[string]struct {
		node     *corev1.Node
		hosts    []Host
		machines []infrav1.ScalewayAppleSiliconMachine
		goes     bool
	}{
		"of a free host":                     {node: macNode(nil), hosts: []Host{free}, goes: true},
		"of a detached host":                 {node: macNode(nil), hosts: []Host{detached}, goes: true},
		"of a released host":                 {node: macNode(nil), hosts: []Host{released}, goes: true},
		"of no host":                         {node: macNode(nil), goes: true},
		"without a providerID":               {node: macNode(bare), goes: true},
		"without a providerID, released":     {node: macNode(bare), hosts: []Host{released}, goes: true},
		"claimed, its Machine gone":          {node: macNode(nil), hosts: []Host{claimed}},
		"without a providerID, name claimed": {node: macNode(bare), hosts: []Host{claimed}},
		"handed over":                        {node: macNode(nil), hosts: []Host{moved}},
		"without a providerID, handed over":  {node: macNode(bare), hosts: []Host{moved}},
		"handed over, without a claim":       {node: macNode(nil), hosts: []Host{movedRebuilt}},
		"of a host that another claimed":     {node: macNode(nil), hosts: []Host{others}},
		"of a live Machine, by name":         {node: macNode(nil), machines: machine(func(m *infrav1.ScalewayAppleSiliconMachine) { m.Name = "mac-1" })},
		"of a live Machine, by its server":   {node: macNode(nil), machines: machine(func(m *infrav1.ScalewayAppleSiliconMachine) { m.Status.ServerID = nodeServer })},
		"of a live Machine, by providerID":   {node: macNode(nil), machines: machine(func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.ProviderID = ProviderID("fr-par-1", nodeServer) })},
		"of a live Machine, by its intent": {node: macNode(nil), machines: machine(func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Spec.HostRef = &infrav1.HostReference{Name: "fr-par-1-" + nodeServer}
		})},
		"a linux node named as a released one":  {node: macNode(func(n *corev1.Node) { bare(n); n.Labels = map[string]string{"kubernetes.io/os": "linux"} }), hosts: []Host{released}},
		"a control plane that says it is a Mac": {node: macNode(func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }), hosts: []Host{free}},
		"a control plane by its old label":      {node: macNode(func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/master"] = "" }), hosts: []Host{free}},
	} {
		t.Run(name, func(t *testing.T) {
			why := KeepNode(c.node, NodeClaims(c.node, c.hosts), OwnersOf(c.machines))
			if (why == "") != c.goes {
				t.Errorf("goes = %t (%s), want %t", why == "", why, c.goes)
			}
		})
	}
}

func TestANodeWaitsForItsCluster(t *testing.T) {
	here := ClusterState{Namespace: "fleet", Name: "macs"}
	for name, c := range map[string]struct {
		clusters []ClusterState
		waits    bool
	}{
		"here":              {[]ClusterState{here}, false},
		"being deleted":     {[]ClusterState{{Name: "macs", Deleting: true}}, false},
		"none":              {nil, true},
		"missing":           {[]ClusterState{{Missing: true}}, true},
		"paused":            {[]ClusterState{{Paused: true}}, true},
		"one of two paused": {[]ClusterState{here, {Paused: true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if why := NodeWaits(c.clusters); (why != "") != c.waits {
				t.Errorf("waits: %q, want %t", why, c.waits)
			}
		})
	}
}
