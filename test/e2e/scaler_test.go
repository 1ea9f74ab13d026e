package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
)

// Keys of cluster-autoscaler's contract with Cluster API.
const (
	minSize    = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	maxSize    = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	capacities = "capacity.cluster-autoscaler.kubernetes.io/"
	markGoes   = "cluster.x-k8s.io/delete-machine"
)

// autoscaler does what the contract of cluster-autoscaler's provider for Cluster API says
// that one does, and what macfleet relies on: it knows the Nodes of a group by the
// template and the annotations of a MachineDeployment, asks for as many as the Pods that
// cannot be scheduled need, and has idle Nodes go that nothing keeps. The real one does
// more, and was tried by hand: docs/operate/autoscaler.md.
type autoscaler struct {
	*fleet
	// macs has the rights of the chart's role, and no more.
	macs   client.Client
	scales dynamic.NamespaceableResourceInterface
	// idleSince is since when Nodes were seen idle, and passedOver how often one was that
	// is kept.
	idleSince  map[string]time.Time
	passedOver map[string]int
}

// unneeded is how long a Node is idle before it goes.
const unneeded = 2 * time.Second

// nodeGroup is a MachineDeployment that may be scaled.
type nodeGroup struct {
	deployment clusterv1.MachineDeployment
	template   infrav1.ScalewayAppleSiliconMachineTemplate
	min, max   int32
}

func (f *fleet) newAutoscaler() *autoscaler {
	f.Helper()
	const user = "autoscaler"
	f.bindAutoscaler(user)
	config := rest.CopyConfig(f.world.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	macs, err := client.New(config, client.Options{Scheme: f.client.Scheme()})
	if err != nil {
		f.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		f.Fatal(err)
	}
	// The API server learns of the binding by watching.
	f.await("the autoscaler's rights", func() (string, bool) {
		err := macs.List(f.Context(), &clusterv1.MachineDeploymentList{}, client.InNamespace(world.Namespace))
		return fmt.Sprint(err), err == nil
	})
	return &autoscaler{
		fleet: f, macs: macs, idleSince: map[string]time.Time{}, passedOver: map[string]int{},
		scales: objects.Resource(schema.GroupVersionResource{Group: clusterv1.GroupVersion.Group, Version: clusterv1.GroupVersion.Version, Resource: "machinedeployments"}),
	}
}

// until scales again and again until the condition holds.
func (a *autoscaler) until(what string, condition func() (string, bool)) {
	a.Helper()
	a.await(what, func() (string, bool) {
		for _, group := range a.groups() {
			a.scaleUp(group)
			a.scaleDown(group)
		}
		return condition()
	})
}

// groups are the MachineDeployments that say how far they may be scaled.
func (a *autoscaler) groups() []nodeGroup {
	a.Helper()
	list := &clusterv1.MachineDeploymentList{}
	if err := a.macs.List(a.Context(), list, client.InNamespace(world.Namespace)); err != nil {
		a.Fatal(err)
	}
	var groups []nodeGroup
	for _, deployment := range list.Items {
		least, errLeast := strconv.ParseInt(deployment.Annotations[minSize], 10, 32)
		most, errMost := strconv.ParseInt(deployment.Annotations[maxSize], 10, 32)
		if errLeast != nil || errMost != nil {
			continue
		}
		group := nodeGroup{deployment: deployment, min: int32(least), max: int32(most)}
		key := client.ObjectKey{Namespace: deployment.Namespace, Name: deployment.Spec.Template.Spec.InfrastructureRef.Name}
		if err := a.macs.Get(a.Context(), key, &group.template); err != nil {
			a.Fatal(err)
		}
		groups = append(groups, group)
	}
	return groups
}

func (a *autoscaler) group(name string) nodeGroup {
	a.Helper()
	groups := a.groups()
	i := slices.IndexFunc(groups, func(g nodeGroup) bool { return g.deployment.Name == name })
	if i < 0 {
		a.Fatalf("%s may not be scaled, only %d others", name, len(groups))
	}
	return groups[i]
}

// templateNode is a Node of the group as it is foreseen: of the template's status, and of
// the annotations, which win, without what a kube-proxy needs.
func (a *autoscaler) templateNode(g nodeGroup) corev1.Node {
	a.Helper()
	said := g.deployment.Annotations
	list := g.template.Status.Capacity.DeepCopy()
	list[corev1.ResourcePods] = resource.MustParse(cmp.Or(said[capacities+"maxPods"], "110"))
	for name, proxy := range map[corev1.ResourceName]string{corev1.ResourceCPU: "100m", corev1.ResourcePods: "1"} {
		left := list[name]
		left.Sub(resource.MustParse(proxy))
		list[name] = left
	}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		corev1.LabelArchStable: g.template.Status.NodeInfo.Architecture, corev1.LabelOSStable: g.template.Status.NodeInfo.OperatingSystem,
	}}}
	node.Status.Allocatable = list
	node.Status.NodeInfo.Architecture, node.Status.NodeInfo.OperatingSystem = g.template.Status.NodeInfo.Architecture, g.template.Status.NodeInfo.OperatingSystem
	for pair := range strings.SplitSeq(said[capacities+"labels"], ",") {
		if key, value, is := strings.Cut(pair, "="); is {
			node.Labels[key] = value
		}
	}
	node.Spec.Taints = taintsIn(said[capacities+"taints"])
	return node
}

// taintsIn are those of an annotation, of which the autoscaler leaves out what is no taint.
func taintsIn(annotation string) []corev1.Taint {
	var taints []corev1.Taint
	for text := range strings.SplitSeq(annotation, ",") {
		pair, effect, whole := strings.Cut(text, ":")
		if key, value, _ := strings.Cut(pair, "="); whole {
			taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
		}
	}
	return taints
}

func TestNoAnnotationIsNoTaint(t *testing.T) {
	for annotation, want := range map[string]int{"": 0, "a=b:NoSchedule": 1, "a:NoSchedule,c=d:NoExecute": 2, "a=b": 0} {
		if got := taintsIn(annotation); len(got) != want {
			t.Errorf("%q: %+v", annotation, got)
		}
	}
}

// fits reports that a Pod may run on a Node that already has these. It knows the parts
// of a Pod that the tests use.
func fits(pod corev1.Pod, node corev1.Node, having []corev1.Pod) bool {
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	for _, taint := range node.Spec.Taints {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Background(), &taint, true) }) {
			return false
		}
	}
	for name, have := range node.Status.Allocatable {
		for _, other := range append(slices.Clone(having), pod) {
			have.Sub(request(other, name))
		}
		if have.Sign() < 0 {
			return false
		}
	}
	return true
}

func request(pod corev1.Pod, name corev1.ResourceName) resource.Quantity {
	var sum resource.Quantity
	for _, container := range pod.Spec.Containers {
		sum.Add(container.Resources.Requests[name])
	}
	if name == corev1.ResourcePods {
		sum.Add(resource.MustParse("1"))
	}
	return sum
}

// place is a Node that is there or on its way, and the Pods that it has or would have.
type place struct {
	node corev1.Node
	pods []corev1.Pod
}

// places of the group: its Nodes, and what is on its way. A Node that is not Ready yet is
// as good as one on its way.
func (a *autoscaler) places(g nodeGroup, template corev1.Node) []place {
	a.Helper()
	var out []place
	for name, machine := range a.nodesOf(g) {
		if _, goes := machine.Annotations[markGoes]; goes {
			continue
		}
		there := place{node: template}
		for _, node := range a.nodes() {
			if node.Name == name && takesPods(node) {
				there.node = node
			}
		}
		for _, pod := range a.pods() {
			if pod.Spec.NodeName == name {
				there.pods = append(there.pods, pod)
			}
		}
		out = append(out, there)
	}
	for len(out) < int(ptr.Deref(g.deployment.Spec.Replicas, 0)) {
		out = append(out, place{node: template})
	}
	return out
}

// takesPods reports that a Node is Ready, and that the control plane lets Pods on it.
func takesPods(node corev1.Node) bool {
	return nodeReady(node) && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
}

// scaleUp asks for the Nodes that the Pods which cannot be scheduled need beyond those
// that are there or on their way.
func (a *autoscaler) scaleUp(g nodeGroup) {
	a.Helper()
	template := a.templateNode(g)
	if template.Status.Allocatable.Cpu().Sign() <= 0 || template.Status.Allocatable.Memory().Sign() <= 0 {
		return // it cannot be scaled from zero
	}
	places, more := a.places(g, template), int32(0)
	for _, pod := range a.pods() {
		if !unschedulable(pod) || !fits(pod, template, nil) {
			continue
		}
		i := slices.IndexFunc(places, func(p place) bool { return fits(pod, p.node, p.pods) })
		if i < 0 {
			places, i, more = append(places, place{node: template}), len(places), more+1
		}
		places[i].pods = append(places[i].pods, pod)
	}
	if size := ptr.Deref(g.deployment.Spec.Replicas, 0); more > 0 && size < g.max {
		a.resize(g, min(g.max, size+more))
	}
}

func unschedulable(pod corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// nodesOf are the group's Nodes that are there, by their Machines.
func (a *autoscaler) nodesOf(g nodeGroup) map[string]*clusterv1.Machine {
	a.Helper()
	list := &clusterv1.MachineList{}
	if err := a.macs.List(a.Context(), list, client.InNamespace(world.Namespace), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: g.deployment.Name}); err != nil {
		a.Fatal(err)
	}
	there := a.nodeNames()
	out := map[string]*clusterv1.Machine{}
	for i := range list.Items {
		if name := list.Items[i].Status.NodeRef.Name; name != "" && slices.Contains(there, name) {
			out[name] = &list.Items[i]
		}
	}
	return out
}

// scaleDown has one Node go that is idle for some time, and that nobody keeps: its
// Machine is marked, and there is to be one less. As long as a Pod waits for a Node none
// is idle, and none that takes no Pods yet: that one has had no chance to be anything else.
func (a *autoscaler) scaleDown(g nodeGroup) {
	a.Helper()
	if slices.ContainsFunc(a.pods(), unschedulable) {
		clear(a.idleSince)
		return
	}
	size, busy, now := ptr.Deref(g.deployment.Spec.Replicas, 0), a.podsByNode(), time.Now()
	nodes, kept, open := a.nodesOf(g), a.kept(), map[string]bool{}
	for _, node := range a.nodes() {
		open[node.Name] = takesPods(node)
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		switch {
		case len(busy[name]) > 0 || !open[name] || !nodes[name].DeletionTimestamp.IsZero():
			delete(a.idleSince, name)
			continue
		case kept[name]:
			delete(a.idleSince, name)
			a.passedOver[name]++ // it is idle, and kept
			continue
		case a.idleSince[name].IsZero():
			a.idleSince[name] = now
		}
		if now.Sub(a.idleSince[name]) < unneeded || size <= g.min {
			continue
		}
		machine := nodes[name]
		metav1.SetMetaDataAnnotation(&machine.ObjectMeta, markGoes, now.String())
		if err := a.macs.Update(a.Context(), machine); err != nil {
			a.Logf("marking Machine %s: %v", machine.Name, err)
			return // the next pass sees the newer one
		}
		delete(a.idleSince, name)
		a.resize(g, size-1)
		return
	}
}

// kept are the Nodes that may not be scaled down.
func (a *autoscaler) kept() map[string]bool {
	a.Helper()
	out := map[string]bool{}
	for _, node := range a.nodes() {
		out[node.Name] = node.Annotations[infrav1.ScaleDownDisabledAnnotation] == "true"
	}
	return out
}

// resize writes the scale, and nothing else of the MachineDeployment.
func (a *autoscaler) resize(g nodeGroup, replicas int32) {
	a.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := a.scales.Namespace(world.Namespace).Patch(a.Context(), g.deployment.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "scale"); err != nil {
		a.Fatalf("scaling %s to %d: %v", g.deployment.Name, replicas, err)
	}
}
