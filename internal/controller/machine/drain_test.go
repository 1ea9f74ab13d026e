package machine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
)

func pod(name string, owner string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "mac-1"}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "x", UID: "x", Controller: ptr.To(true)}}
	}
	return p
}

// Deleted alone, without its Machine: core drains nothing, so it is ours to do.
func TestTheNodeIsEmptiedWhereCoreDoesNot(t *testing.T) {
	w := runningWorld(t)
	w.create(pod("build", "ReplicaSet"))
	w.create(pod("daemon", "DaemonSet"))
	stays := pod("slow", "ReplicaSet")
	stays.Finalizers = []string{"test/hold"}
	w.create(stays)
	w.delete(w.machine("mac-1"))
	w.visit("mac-1")
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: "mac-1"}, node)
	if !node.Spec.Unschedulable || w.reason("mac-1", infrav1.ReleasedCondition) != infrav1.ReasonDraining {
		t.Errorf("unschedulable = %t, Released = %s", node.Spec.Unschedulable, w.reason("mac-1", infrav1.ReleasedCondition))
	}
	if !w.gone(client.ObjectKeyFromObject(pod("build", "")), &corev1.Pod{}) || w.gone(client.ObjectKeyFromObject(pod("daemon", "")), &corev1.Pod{}) {
		t.Error("want the build evicted, and the daemon left")
	}
	if w.host(hostName).Spec.Release != nil {
		t.Error("released with a Pod still running")
	}
	w.get(client.ObjectKeyFromObject(stays), stays)
	stays.Finalizers = nil
	w.update(stays)
	w.settle("mac-1")
	if !w.machineGone("mac-1") || w.host(hostName).Spec.Release == nil || !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Errorf("gone = %t, release = %+v; want all of it, and the Node deleted", w.machineGone("mac-1"), w.host(hostName).Spec.Release)
	}
}

func TestDrainEndsAfterItsTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		timeout *int32
		wait    time.Duration
		ready   bool
	}{
		"default":      {nil, machine.DefaultDrainTimeout, true},
		"the Machines": {ptr.To(int32(60)), time.Minute, true},
		"silent Node":  {nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			core := &clusterv1.Machine{}
			w.get(client.ObjectKey{Namespace: namespace, Name: "mac-1"}, core)
			core.Spec.Deletion.NodeDrainTimeoutSeconds = c.timeout
			w.update(core)
			stuck := pod("stuck", "ReplicaSet")
			stuck.Finalizers = []string{"test/hold"}
			w.create(stuck)
			if !c.ready {
				node := &corev1.Node{}
				w.get(client.ObjectKey{Name: "mac-1"}, node)
				node.Status.Conditions[0].Status = corev1.ConditionUnknown
				w.updateStatus(node)
			}
			w.delete(w.machine("mac-1"))
			w.clock.SetTime(w.machine("mac-1").DeletionTimestamp.Time)
			if c.wait > 0 {
				w.clock.SetTime(w.clock.Now().Add(c.wait - time.Second))
				w.visit("mac-1")
				if w.host(hostName).Spec.Release != nil {
					t.Fatal("released before the drain's time was over")
				}
				w.clock.SetTime(w.clock.Now().Add(time.Second))
			}
			w.settle("mac-1")
			if !w.machineGone("mac-1") || w.host(hostName).Spec.Release == nil {
				t.Error("a Pod that does not end holds the Machine for ever")
			}
		})
	}
}

// The API server refuses a Pod with two disruption budgets for ever, and a webhook
// may refuse the cordon: the drain's time ends that, too.
func TestRefusedEvictionDoesNotBlockDeletion(t *testing.T) {
	refused := apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget"))
	for name, faults := range map[string]interceptor.Funcs{
		"eviction": {SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return refused
		}},
		"cordon": {Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, is := o.(*corev1.Node); is {
				return refused
			}
			return c.Patch(ctx, o, p, opts...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			w.create(pod("stuck", "ReplicaSet"))
			w.r.Client = interceptor.NewClient(w.client, faults)
			w.r.wire()
			w.delete(w.machine("mac-1"))
			w.clock.SetTime(w.machine("mac-1").DeletionTimestamp.Add(machine.DefaultDrainTimeout - time.Second))
			key := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}}
			if _, err := w.r.Reconcile(t.Context(), key); err == nil || w.host(hostName).Spec.Release != nil {
				t.Fatalf("error = %v, release = %+v; want the refusal, which is tried again", err, w.host(hostName).Spec.Release)
			}
			if got := w.message("mac-1", infrav1.ReleasedCondition); w.reason("mac-1", infrav1.ReleasedCondition) != infrav1.ReasonDraining || !strings.Contains(got, "PodDisruptionBudget") {
				t.Errorf("Released = %q, want the refusal in it", got)
			}
			w.clock.SetTime(w.clock.Now().Add(time.Second))
			w.settle("mac-1")
			if !w.machineGone("mac-1") || w.host(hostName).Spec.Release == nil || !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
				t.Errorf("gone = %t, release = %+v; want it released, and the Node deleted", w.machineGone("mac-1"), w.host(hostName).Spec.Release)
			}
		})
	}
}

// An admission webhook may refuse the deletion of the Node for ever. Where a wipe
// follows, the host controller deletes the Node again, so it holds the Machine no longer
// than the drain's time; else nothing would, and the Machine waits and says so.
func TestRefusedNodeDeletionDoesNotBlockDeletion(t *testing.T) {
	const soon, late = machine.DefaultDrainTimeout - time.Second, machine.DefaultDrainTimeout
	for name, c := range map[string]struct {
		policy  infrav1.ReleasePolicy
		pool    string
		silent  bool
		drained bool // by core
		after   time.Duration
		held    bool
	}{
		"recycled, in time":   {"", poolName, false, false, soon, true},
		"recycled":            {"", poolName, false, false, late, false},
		"terminated, in time": {infrav1.Terminate, "", false, false, soon, true},
		"terminated":          {infrav1.Terminate, "", false, false, late, false},
		"silent Node":         {"", poolName, true, false, 0, false},
		"detached":            {infrav1.Detach, poolName, false, false, late, true},
		"detached, silent":    {infrav1.Detach, poolName, true, false, late, true},
		"detached after core": {infrav1.Detach, poolName, false, true, late, true},
		"no pool, so no wipe": {"", "", false, false, late, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			w.r.DefaultPoolPrefix = c.pool
			w.r.wire()
			m := w.machine("mac-1")
			m.Spec.ReleasePolicy = c.policy
			w.update(m)
			if c.silent {
				node := &corev1.Node{}
				w.get(client.ObjectKey{Name: "mac-1"}, node)
				node.Status.Conditions[0].Status = corev1.ConditionUnknown
				w.updateStatus(node)
			}
			if c.drained {
				w.deleteByCore()
			} else {
				w.delete(w.machine("mac-1"))
			}
			w.clock.SetTime(w.machine("mac-1").DeletionTimestamp.Add(c.after))
			w.fail = func(verb string, o client.Object) error {
				if _, is := o.(*corev1.Node); is && verb == "delete" {
					return apierrors.NewForbidden(corev1.Resource("nodes"), o.GetName(), errors.New("a policy keeps Nodes"))
				}
				return nil
			}
			key := client.ObjectKey{Namespace: namespace, Name: "mac-1"}
			var err error
			for range 10 {
				_, err = w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
				w.awaitJobs(key)
			}
			if !c.held {
				if !w.machineGone("mac-1") || !host.WipeAllowed(w.host(hostName)) {
					t.Errorf("error = %v, gone = %t, release = %+v; want it released", err, w.machineGone("mac-1"), w.host(hostName).Spec.Release)
				}
				return
			}
			if h := w.host(hostName); err == nil || h.Spec.Release != nil || h.Spec.ClaimRef == nil {
				t.Fatalf("error = %v, spec = %+v; want the refusal, which is tried again", err, h.Spec)
			}
			if got := w.message("mac-1", infrav1.ReleasedCondition); w.reason("mac-1", infrav1.ReleasedCondition) != infrav1.ReasonDraining || !strings.Contains(got, "a policy keeps Nodes") {
				t.Errorf("Released = %q, want the refusal in it", got)
			}
			w.fail = noFault
			w.settle("mac-1")
			if !w.machineGone("mac-1") || !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
				t.Error("want the Machine and its Node gone once the Node may be deleted")
			}
		})
	}
}

func TestWhoDrains(t *testing.T) {
	now := metav1.Now()
	deleted := func(m *clusterv1.Machine) { m.DeletionTimestamp = &now }
	for name, c := range map[string]struct {
		change func(v *visit)
		core   bool
	}{
		"Machine deleted":            {func(*visit) {}, true},
		"infra machine alone":        {func(v *visit) { v.Owner.DeletionTimestamp = nil }, false},
		"no owner":                   {func(v *visit) { v.Owner = nil }, false},
		"Node never seen by core":    {func(v *visit) { v.Owner.Status.NodeRef = clusterv1.MachineNodeReference{} }, false},
		"Cluster being deleted":      {func(v *visit) { v.Cluster.DeletionTimestamp = &now }, false},
		"Cluster gone":               {func(v *visit) { v.Cluster = nil }, false},
		"no control plane, no drain": {func(v *visit) { v.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			owner := pair("mac-1")[0].(*clusterv1.Machine)
			owner.Status.NodeRef = clusterv1.MachineNodeReference{Name: "mac-1"}
			deleted(owner)
			v := &visit{Snapshot: machine.Snapshot{Owner: owner, Cluster: cluster()}}
			c.change(v)
			if got := coreDrains(v); got != c.core {
				t.Errorf("core drains = %t, want %t", got, c.core)
			}
		})
	}
}
