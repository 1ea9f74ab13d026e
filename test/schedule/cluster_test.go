package schedule

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

const (
	namespace   = "fleet"
	coreHolds   = "machine.cluster.x-k8s.io"
	kindHost    = "ScalewayAppleSiliconHost"
	kindMachine = "ScalewayAppleSiliconMachine"
)

// cluster is one management cluster: its API server, Cluster API core, and two
// managers, of which one leads, or each for a namespace of its own.
type cluster struct {
	sim      *sim
	name     string
	store    *store
	managers [2]*manager
	// leads says which managers work; for a moment both may.
	leads       [2]bool
	overlapEnds time.Time
	machines    int
	// pausedAt is when the Cluster was last paused; zero while it is not.
	pausedAt time.Time
	// reclaims starts the names of servers that the sweep may take back; empty: none.
	reclaims string
	// lost are the Hosts that a person deleted, by server; an order that has none, by name.
	lost map[string]lostHost
	// forced is when a person took the finalizer off a Machine.
	forced map[string]time.Time
	// nodeless are the Machines whose Node a person deleted.
	nodeless map[string]bool
	// departed are the infra machines that went, or that a person pointed elsewhere, as
	// they last were.
	departed map[client.ObjectKey]departure
	// backups are what a person has kept of objects, oldest first.
	backups []backup
	// forged are Machines for which a person made up, or copied, all that shows a claim.
	forged map[client.ObjectKey]bool
	// pinned are Secrets that pin a host key, and that a person restored or copied.
	pinned map[client.ObjectKey]bool
	// kept is the Cluster that a person deleted.
	kept *clusterv1.Cluster
	// disturbed is when a server was wiped or rebooted on the product's own account.
	disturbed map[string]time.Time
}

// lostHost is a Host as it last was.
type lostHost struct {
	host *host.Host
	at   time.Time
}

func (s *sim) newCluster(name string) *cluster {
	c := &cluster{sim: s, name: name, forced: map[string]time.Time{}, departed: map[client.ObjectKey]departure{}, forged: map[client.ObjectKey]bool{}, pinned: map[client.ObjectKey]bool{}, nodeless: map[string]bool{}, disturbed: map[string]time.Time{}, lost: map[string]lostHost{}, store: newStore(name, s.scheme, s.clock)}
	if s.reclaims || s.chance(50) {
		c.reclaims = name + "-"
	}
	c.store.check = c.admit
	for _, in := range c.namespaces() {
		c.create(in)
	}
	s.must(c.store.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": `{"kind":"Config","apiVersion":"v1","clusters":[{"name":"","cluster":{"server":"https://192.0.2.1:6443","certificate-authority-data":"Y2E="}}]}`},
	}))
	c.managers = [2]*manager{s.startManager(c, 1), s.startManager(c, 2)}
	c.leads = [2]bool{true, s.apart}
	return c
}

// create makes the Cluster, in one of its namespaces.
func (c *cluster) create(in string) {
	s, name := c.sim, c.name
	labels := map[string]string{clusterv1.ClusterNameLabel: name}
	s.must(c.store.create(&infrav1.ScalewayAppleSiliconCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name, Labels: labels},
		Spec:       infrav1.ScalewayAppleSiliconClusterSpec{Zones: []string{zone}},
	}))
	object := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name},
		Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "ScalewayAppleSiliconCluster", Name: name},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "ExternalControlPlane", Name: name},
		},
	}
	s.must(c.store.create(object))
	object.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	s.must(c.store.update(object, true))
}

// active are the managers that work now.
func (c *cluster) active() []*manager {
	var active []*manager
	for i, m := range c.managers {
		if c.leads[i] && !m.dead {
			active = append(active, m)
		}
	}
	return active
}

func (c *cluster) hosts() []*host.Host {
	return of[*host.Host](c.store, kindHost)
}

func (c *cluster) infra() []*infrav1.ScalewayAppleSiliconMachine {
	return of[*infrav1.ScalewayAppleSiliconMachine](c.store, kindMachine)
}

// of are copies of all objects of a kind.
func of[T client.Object](s *store, kind string) []T {
	var objects []T
	for _, object := range s.all(kind) {
		objects = append(objects, object.DeepCopyObject().(T))
	}
	return objects
}

func (c *cluster) object() *clusterv1.Cluster {
	found := c.store.get("Cluster", client.ObjectKey{Namespace: namespace, Name: c.name})
	if found == nil {
		return nil
	}
	return found.DeepCopyObject().(*clusterv1.Cluster)
}

func (c *cluster) paused() bool {
	object := c.object()
	return object != nil && ptr.Deref(object.Spec.Paused, false)
}

// hostOf is the Host of a server, or nil.
func (c *cluster) hostOf(serverID string) *host.Host {
	found := c.store.get(kindHost, client.ObjectKey{Name: host.ObjectName(zone, serverID)})
	if found == nil {
		return nil
	}
	return found.DeepCopyObject().(*host.Host)
}

// releasedAlike: a server's Host has this very release.
func (c *cluster) releasedAlike(release *infrav1.Release) bool {
	return slices.ContainsFunc(c.hosts(), func(h *host.Host) bool {
		return h.Spec.ServerID != "" && h.Spec.Release != nil && h.Spec.Release.Token == release.Token && h.Spec.Release.Policy == release.Policy
	})
}

// orderOf is the order with the token, or nil.
func (c *cluster) orderOf(token string) *host.Host {
	for _, h := range c.hosts() {
		if h.Spec.Order != nil && bears(h, token) {
			return h
		}
	}
	return nil
}

// claimant is the infra machine that a claim names and whose hostRef bears its
// token, or nil.
func (c *cluster) claimant(claim *infrav1.ClaimReference) *infrav1.ScalewayAppleSiliconMachine {
	m, is := c.store.get(kindMachine, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}).(*infrav1.ScalewayAppleSiliconMachine)
	if !is || m.Spec.HostRef == nil || m.Spec.HostRef.ClaimToken != claim.Token {
		return nil
	}
	return m
}

// departure is an infra machine as it last was, and when it ceased to be so.
type departure struct {
	machine *infrav1.ScalewayAppleSiliconMachine
	at      time.Time
	// deleting: its deletion had been asked for before.
	deleting bool
}

// newMachine is a person, or a MachineSet, that wants one more Mac.
func (c *cluster) newMachine(class infrav1.MachineClass) {
	c.machines++
	name, in := fmt.Sprintf("%s-%d", c.name, c.machines), namespace
	if c.sim.apart {
		in = c.anyNamespace()
	}
	labels := map[string]string{clusterv1.ClusterNameLabel: c.name}
	owner := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name, Labels: labels, Finalizers: []string{coreHolds}},
		Spec: clusterv1.MachineSpec{
			ClusterName:       c.name,
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kindMachine, Name: name},
		},
	}
	c.sim.must(c.store.create(owner))
	c.sim.must(c.store.create(&infrav1.ScalewayAppleSiliconMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in, Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: owner.UID, Controller: ptr.To(true)}},
		},
		Spec: infrav1.ScalewayAppleSiliconMachineSpec{MachineClass: class},
	}))
	c.sim.note("user: new Machine %s %s%s", shortKey(client.ObjectKeyFromObject(owner)), class.Acquisition, class.ReleasePolicy)
}

// anyClass is what a person may want: mostly a Mac of the pool that goes back to it.
func (s *sim) anyClass() (class infrav1.MachineClass) {
	switch roll := s.dice.IntN(100); {
	case roll < 12 && len(s.vendor.Servers()) < 6:
		class.Acquisition, class.Type = infrav1.Order, "M2-L"
	case roll < 20:
		class.ReleasePolicy = infrav1.Terminate
	case roll < 28:
		class.ReleasePolicy = infrav1.Detach
	}
	return class
}

// core does what Cluster API core does, once for each Machine and Node.
func (c *cluster) core() {
	if c.paused() {
		return
	}
	if object := c.object(); object != nil && object.DeletionTimestamp != nil {
		c.endCluster(object)
	}
	for _, m := range of[*clusterv1.Machine](c.store, "Machine") {
		if m.DeletionTimestamp != nil {
			c.endMachine(m)
			continue
		}
		c.adopts(m)
		c.refer(m)
	}
	for _, node := range of[*corev1.Node](c.store, "Node") {
		c.judge(node)
	}
}

// refer notes a Machine's Node.
func (c *cluster) refer(m *clusterv1.Machine) {
	infra, is := c.store.get(kindMachine, client.ObjectKeyFromObject(m)).(*infrav1.ScalewayAppleSiliconMachine)
	if !is || infra.Spec.ProviderID == "" || m.Status.NodeRef.IsDefined() || !ptr.Deref(infra.Status.Initialization.Provisioned, false) {
		return
	}
	for _, node := range of[*corev1.Node](c.store, "Node") {
		if node.Spec.ProviderID == infra.Spec.ProviderID {
			m.Status.NodeRef = clusterv1.MachineNodeReference{Name: node.Name}
			c.sim.must(c.store.update(m, true))
		}
	}
}

// endMachine deletes the infra machine, then the Node, then lets the Machine go.
func (c *cluster) endMachine(m *clusterv1.Machine) {
	if infra := c.store.get(kindMachine, client.ObjectKeyFromObject(m)); infra != nil {
		c.sim.must(c.store.delete(infra, nil))
		return
	}
	if m.Status.NodeRef.IsDefined() {
		if node, is := c.store.get("Node", client.ObjectKey{Name: m.Status.NodeRef.Name}).(*corev1.Node); is {
			c.judgeNode(node)
			c.sim.must(c.store.delete(node, nil))
		}
	}
	m.Finalizers = nil
	c.sim.must(c.store.update(m, false))
	c.sim.note("core: Machine %s is gone", m.Name)
}

// endCluster deletes the Machines, then what is left.
func (c *cluster) endCluster(object *clusterv1.Cluster) {
	machines := c.store.all("Machine")
	for _, m := range machines {
		c.sim.must(c.store.delete(m, nil))
	}
	if len(machines) > 0 || len(c.infra()) > 0 {
		return
	}
	object.Finalizers = nil
	c.sim.must(c.store.update(object, false))
}

// judge marks a Node whose agent is silent, as the node lifecycle controller does.
func (c *cluster) judge(node *corev1.Node) {
	for _, m := range c.sim.macs {
		a := m.disk.agent
		if a != nil && a.joined && a.cluster == c && a.node == node.Name && a.providerID == node.Spec.ProviderID {
			return
		}
	}
	if node.Status.Conditions[0].Status == corev1.ConditionUnknown {
		return
	}
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(c.sim.clock.Now())
	c.sim.must(c.store.update(node, false))
}

// pausedDiffers: the Paused condition would have to change.
func pausedDiffers(from view, key types.NamespacedName) bool {
	m, is := from.get(kindMachine, key).(*infrav1.ScalewayAppleSiliconMachine)
	if !is {
		return false
	}
	_, want := m.Annotations[clusterv1.PausedAnnotation]
	if object, is := from.get("Cluster", client.ObjectKey{Namespace: key.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}).(*clusterv1.Cluster); is {
		want = want || ptr.Deref(object.Spec.Paused, false)
	}
	have := meta.FindStatusCondition(m.Status.Conditions, clusterv1.PausedCondition)
	return have == nil || (have.Status == metav1.ConditionTrue) != want
}

// deleteMachine deletes the Cluster API Machine.
func (c *cluster) deleteMachine(m client.Object) {
	c.sim.note("user: delete %s %s", c.store.kind(m), m.GetName())
	c.sim.must(c.store.delete(m, nil))
}

// edit changes an object as a person would, with the newest version.
func (c *cluster) edit(object client.Object, what string, change func()) {
	change()
	c.sim.note("user: %s %s", what, object.GetName())
	c.sim.must(c.store.update(object, false))
}

// strip removes a finalizer by force.
func strip(object client.Object, finalizer string) {
	object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(f string) bool { return f == finalizer }))
}

// bears reports that the host is claimed with the token, for whomever.
func bears(h *host.Host, token string) bool {
	return h.Spec.ClaimRef != nil && h.Spec.ClaimRef.Token == token
}
