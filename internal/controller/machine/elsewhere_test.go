package machine

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// controlPlane says that Macs are nodes of the cluster, or of the one that it is in.
func controlPlane(clusterID string) *controlplanev1.ExternalControlPlane {
	return &controlplanev1.ExternalControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "macs"}, Spec: controlplanev1.ExternalControlPlaneSpec{ClusterID: clusterID},
	}
}

// isOf makes the Macs nodes of another cluster.
func (w *world) isOf(clusterID string) {
	w.t.Helper()
	plane := &controlplanev1.ExternalControlPlane{}
	w.get(client.ObjectKeyFromObject(controlPlane("")), plane)
	plane.Spec.ClusterID = clusterID
	w.update(plane)
}

// After `clusterctl move` a Mac is still a node of the cluster it came from, and its guests
// run there: nothing is done to it before a person says that it joins here.
func TestAMacOfAnotherClusterIsLeftThereAsItIs(t *testing.T) {
	w := claimed(t)
	w.r.machines.clusterID = "here"
	w.create(controlPlane("there"))
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.ReasonDifferentCluster || len(w.mac.dials) != 0 {
		t.Errorf("Bootstrapped = %s, dialled %d times", got, len(w.mac.dials))
	}
	for _, here := range []string{"here", ""} {
		w.isOf(here)
		w.settle("mac-1")
		if m := w.machine("mac-1"); m.Spec.ProviderID == "" {
			t.Errorf("cluster %q: conditions = %+v, want it provisioned", here, m.Status.Conditions)
		}
	}
}

// Where what says whose node a Mac is cannot be seen, as in the midst of a restore, it may
// be another cluster's. Clusters that never say it are not waited for.
func TestAMacWaitsForWhatSaysWhoseNodeItIs(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*world)
		waits  bool
	}{
		"no ExternalControlPlane": {func(*world) {}, true},
		"no Cluster":              {func(w *world) { w.create(controlPlane("here")); w.delete(cluster()) }, true},
		"another's control plane": {func(w *world) {
			c := &clusterv1.Cluster{}
			w.get(client.ObjectKeyFromObject(cluster()), c)
			c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "macs"}
			w.update(c)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := claimed(t)
			w.r.machines.clusterID = "here"
			row.change(w)
			result := w.settle("mac-1")
			waits := w.reason("mac-1", infrav1.BootstrappedCondition) == infrav1.ReasonWaitingForCluster
			if waits != row.waits || (len(w.mac.dials) == 0) != row.waits {
				t.Errorf("conditions = %+v, dialled %d times", w.machine("mac-1").Status.Conditions, len(w.mac.dials))
			}
			if row.waits && result.RequeueAfter != elsewherePoll {
				t.Errorf("looks again after %s", result.RequeueAfter)
			}
		})
	}
}

// The cache may not know yet what a move or a restore has brought.
func TestNothingIsPushedByAStaleCache(t *testing.T) {
	w := claimed(t)
	w.r.machines.clusterID = "here"
	w.create(controlPlane("there"))
	w.r.machines.client = interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if plane, is := o.(*controlplanev1.ExternalControlPlane); is {
				*plane = *controlPlane("here")
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	if result := w.settle("mac-1"); result.RequeueAfter == 0 {
		t.Error("it does not look again")
	}
	if got := w.reason("mac-1", infrav1.BootstrappedCondition); got != infrav1.ReasonDifferentCluster || len(w.mac.dials) != 0 {
		t.Errorf("Bootstrapped = %s, dialled %d times", got, len(w.mac.dials))
	}
}

// A Mac that is taken could not join, and one that is ordered is paid for a day.
func TestNoMacIsTakenOrOrderedForAClusterThatIsElsewhere(t *testing.T) {
	for name, objects := range map[string][]client.Object{"pool": append(pair("mac-1"), poolHost(serverID)), "order": orderingPair()} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(objects, controlPlane("there"))...)
			w.r.machines.clusterID = "here"
			result := w.settle("mac-1")
			m := w.machine("mac-1")
			c := conditions.Get(m, infrav1.HostClaimedCondition)
			if c == nil || c.Reason != infrav1.ReasonDifferentCluster || !strings.Contains(c.Message, "no Mac is claimed or ordered") || result.RequeueAfter != elsewherePoll {
				t.Errorf("HostClaimed = %+v, looks again after %s", c, result.RequeueAfter)
			}
			if m.Spec.HostRef != nil || len(w.keys.calls) != 0 {
				t.Errorf("hostRef = %+v, %d keys registered", m.Spec.HostRef, len(w.keys.calls))
			}
			w.isOf("here")
			w.settle("mac-1")
			if m := w.machine("mac-1"); m.Spec.HostRef == nil {
				t.Errorf("conditions = %+v, want a host", m.Status.Conditions)
			}
		})
	}
}
