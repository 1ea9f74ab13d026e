package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

// scaledFleet is the sandbox's fleet that an autoscaler may scale. It orders its Macs.
const scaledFleet = "macfleet-burst"

// TestPendingPodsBringMacsAndEmptyMacsGo: a fleet of no Mac gets as many as the Pods that
// wait for one need, and no more. What the autoscaler foresaw of a Mac is what the Mac
// has. An idle Mac stays while it is paid for anyway, and goes when its floor is near: it
// and no other.
func TestPendingPodsBringMacsAndEmptyMacsGo(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 1})
	f.awaitPool(1)
	a := f.newAutoscaler()
	f.await("a template that says what a Mac has", func() (string, bool) {
		group := a.group(scaledFleet)
		return fmt.Sprintf("%+v", group.template.Status), len(group.template.Status.Capacity) > 0
	})
	for _, name := range []string{"a", "b", "c"} {
		f.runOnScaledFleet(name)
	}
	a.until("three Pods on two Macs", func() (string, bool) {
		byNode := f.podsByNode()
		return fmt.Sprint(byNode), len(byNode) == 2 && f.ready() == 3
	})
	if orders := len(f.calls("CreateServer")); orders != 2 || a.replicas(scaledFleet) != 2 {
		t.Errorf("%d orders and %d replicas for three guests, two a Mac", orders, a.replicas(scaledFleet))
	}
	f.checkForeseen(a)

	for _, node := range f.nodeNames() {
		f.world.Vendor().SetFloor(f.serverOfNode(node), time.Now().Add(20*time.Hour))
	}
	f.await("both Macs to be held", func() (string, bool) {
		kept := a.kept()
		return fmt.Sprint(kept), len(kept) == 2 && !slices.Contains(slices.Collect(maps.Values(kept)), false)
	})
	idle, busy := f.emptyOne()
	a.until("the idle Mac to be passed over", func() (string, bool) {
		return fmt.Sprint(a.passedOver), len(f.podsByNode()[idle]) == 0 && a.passedOver[idle] >= 5
	})
	if got := a.replicas(scaledFleet); got != 2 {
		t.Errorf("%d replicas while the idle Mac is paid for", got)
	}
	f.world.Vendor().SetFloor(f.serverOfNode(idle), time.Now().Add(30*time.Minute))
	a.until("the idle Mac to go", func() (string, bool) {
		left := f.nodeNames()
		return fmt.Sprint(left), a.replicas(scaledFleet) == 1 && slices.Equal(left, []string{busy})
	})
	if pods := f.ready(); pods == 0 {
		t.Error("the guests of the other Mac are gone")
	}
	f.world.Vendor().SetFloor(f.serverOfNode(busy), time.Now())
	f.deleteScaledPods()
	a.until("the fleet to be empty", func() (string, bool) {
		return fmt.Sprint(f.nodeNames(), len(f.infraMachines())), a.replicas(scaledFleet) == 0 && len(f.nodeNames()) == 0 && len(f.infraMachines()) == 0
	})
}

// runOnScaledFleet makes a Pod that waits for a Mac of that fleet alone.
func (f *fleet) runOnScaledFleet(name string) {
	f.Helper()
	spec := macPod()
	spec.NodeSelector[infrav1.FleetLabel] = scaledFleet
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: spec}
	if err := f.client.Create(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

// deleteScaledPods ends the Pods of these names; without any, all.
func (f *fleet) deleteScaledPods(names ...string) {
	f.Helper()
	for _, pod := range f.pods() {
		if len(names) > 0 && !slices.Contains(names, pod.Name) {
			continue
		}
		if err := f.client.Delete(f.Context(), &pod); client.IgnoreNotFound(err) != nil {
			f.Fatal(err)
		}
	}
}

// podsByNode are the Pods that have a Node.
func (f *fleet) podsByNode() map[string][]string {
	f.Helper()
	out := map[string][]string{}
	for _, pod := range f.pods() {
		if pod.Spec.NodeName != "" {
			out[pod.Spec.NodeName] = append(out[pod.Spec.NodeName], pod.Name)
		}
	}
	return out
}

// ready counts the Pods that are.
func (f *fleet) ready() int {
	f.Helper()
	n := 0
	for _, pod := range f.pods() {
		if podReady(pod) {
			n++
		}
	}
	return n
}

func (f *fleet) nodeNames() []string {
	f.Helper()
	var names []string
	for _, node := range f.nodes() {
		names = append(names, node.Name)
	}
	return slices.Sorted(slices.Values(names))
}

// emptyOne ends the Pods of one of two Macs.
func (f *fleet) emptyOne() (idle, busy string) {
	f.Helper()
	byNode := f.podsByNode()
	names := slices.Sorted(maps.Keys(byNode))
	if len(names) != 2 {
		f.Fatalf("Pods are on %v, want two Macs", byNode)
	}
	f.deleteScaledPods(byNode[names[0]]...)
	return names[0], names[1]
}

// serverOfNode is the vendor's server that a Node is.
func (f *fleet) serverOfNode(name string) string {
	f.Helper()
	id := f.node(name).Spec.ProviderID
	return id[strings.LastIndex(id, "/")+1:]
}

// checkForeseen compares what the template foretold with what a Mac is, but for what the
// autoscaler takes off for a kube-proxy.
func (f *fleet) checkForeseen(a *autoscaler) {
	f.Helper()
	foreseen := a.templateNode(a.group(scaledFleet))
	for _, node := range f.nodes() {
		for name, quantity := range foreseen.Status.Allocatable {
			if name == corev1.ResourceEphemeralStorage {
				continue // the volume is some less than the disk
			}
			if has := node.Status.Allocatable[name]; has.Cmp(quantity) != 0 {
				f.Errorf("a Mac was to have %s of %s, and has %s", quantity.String(), name, has.String())
			}
		}
		if len(node.Status.Allocatable) != len(foreseen.Status.Allocatable) {
			f.Errorf("a Mac was to have %v, and has %v", foreseen.Status.Allocatable, node.Status.Allocatable)
		}
		for key, value := range foreseen.Labels {
			if key != corev1.LabelHostname && node.Labels[key] != value {
				f.Errorf("a Mac was to have the label %s=%s, and has %q", key, value, node.Labels[key])
			}
		}
		if want, has := taintsOf(foreseen), taintsOf(node); !slices.Equal(has, want) {
			f.Errorf("a Mac was to have the taints %v, and has %v", want, has)
		}
		if node.Status.NodeInfo.Architecture != foreseen.Status.NodeInfo.Architecture || node.Status.NodeInfo.OperatingSystem != foreseen.Status.NodeInfo.OperatingSystem {
			f.Errorf("a Mac was to be %+v, and is %+v", foreseen.Status.NodeInfo, node.Status.NodeInfo)
		}
	}
}

// taintsOf are a Node's taints as a person writes them, in order.
func taintsOf(node corev1.Node) []string {
	var taints []string
	for _, taint := range node.Spec.Taints {
		taints = append(taints, taint.ToString())
	}
	slices.Sort(taints)
	return taints
}

// bindAutoscaler gives a user the role of the chart in the fleet's namespace, and no more.
func (f *fleet) bindAutoscaler(user string) {
	f.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "macfleet-autoscaler"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	if err := f.client.Create(f.Context(), binding); err != nil {
		f.Fatal(err)
	}
}

// replicas is what the MachineDeployment asks for.
func (a *autoscaler) replicas(name string) int32 {
	a.Helper()
	deployment := &clusterv1.MachineDeployment{}
	if err := a.macs.Get(a.Context(), client.ObjectKey{Namespace: world.Namespace, Name: name}, deployment); err != nil {
		a.Fatal(err)
	}
	return ptr.Deref(deployment.Spec.Replicas, -1)
}
