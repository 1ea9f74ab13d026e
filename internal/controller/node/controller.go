// Package node deletes the Nodes of Macs that no Machine has, whoever made them: a
// Mac that was let go, or a thief of its credentials, must not be a Node again. The
// Nodes of a host that is being released are the host controller's; those of live
// Machines are left to the machine controller and to Cluster API.
package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/watch"
)

const (
	// reasonDeleted is the reason of the Event on a Node that is deleted here.
	reasonDeleted = "NodeWithoutMachine"

	// lookAgain is when a Node is looked at again that only its Cluster keeps: that
	// a Cluster comes, or is no longer paused, wakes nobody here.
	lookAgain = time.Minute

	// restoring is how long a Node stays that Cluster API knew, and whose Machine is
	// gone: objects that are restored from a backup are deleted and created again,
	// and the guests of their Macs live meanwhile.
	restoring = 10 * time.Minute
)

// Reconciler looks at one Node at a time.
type Reconciler struct {
	// Client reads the cache, which may keep a Node, and deletes.
	Client client.Client
	// Reader reads uncached: only that condemns a Node.
	Reader   client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock

	lone lone
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconhosts;scalewayapplesiliconmachines,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconclusters,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.Recorder = mgr.GetEventRecorder("macfleet-node")
	err := ctrl.NewControllerManagedBy(mgr).
		Named("macnode").
		For(&corev1.Node{}, builder.WithPredicates(identifies())).
		Watches(&infrav1.ScalewayAppleSiliconMachine{}, handler.EnqueueRequestsFromMapFunc(named), builder.WithPredicates(ends())).
		Watches(&infrav1.ScalewayAppleSiliconHost{}, claimEnds()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller of Nodes: %w", err)
	}
	return nil
}

// identifies: a Node comes, or changes what says whose it is. Heartbeats do not count.
func identifies() predicate.Predicate {
	return watch.Updates(func(before, now *corev1.Node) bool { // a deletion forgets when it was first seen alone
		return before.Spec.ProviderID != now.Spec.ProviderID || !equality.Semantic.DeepEqual(before.Labels, now.Labels) ||
			before.Status.NodeInfo.KubeletVersion != now.Status.NodeInfo.KubeletVersion
	})
}

// named maps a Machine to the Node of its name.
func named(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetName()}}}
}

// ends: a Machine that goes leaves its Node alone.
func ends() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}

// claimEnds wakes the Node of a claim that ends, that is released, or that goes with
// its Host.
func claimEnds() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue, h *host.Host) {
		if h.Spec.ClaimRef != nil {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: h.Spec.ClaimRef.Name}})
		}
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, was := e.ObjectOld.(*host.Host)
			now, is := e.ObjectNew.(*host.Host)
			if was && is && (now.Spec.ClaimRef == nil || (before.Spec.Release == nil) != (now.Spec.Release == nil)) {
				wake(q, before)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			if h, is := e.Object.(*host.Host); is {
				wake(q, h)
			}
		},
	}
}

// Reconcile deletes the Node if it is a Mac's that no Machine has.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	keep, err := r.judge(ctx, r.Client, req.Name)
	if err == nil && keep.why == "" {
		keep, err = r.judge(ctx, r.Reader, req.Name)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if keep.why != "" {
		r.lone.Forget(req.Name)
		return ctrl.Result{}, nil
	}
	return r.mayGo(ctx, keep)
}

// verdict on a Node that was read, with the hosts that it may be.
type verdict struct {
	// why it stays; empty: no Machine has it.
	why    string
	node   *corev1.Node
	claims []*host.Host
}

// judge reads all there is about a Node with one reader. Nothing of it may be changed.
func (r *Reconciler) judge(ctx context.Context, reader client.Reader, name string) (verdict, error) {
	node := &corev1.Node{}
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return verdict{why: "it does not exist"}, nil
		}
		return verdict{}, fmt.Errorf("reading Node %s: %w", name, err)
	}
	if !host.MacNode(node) {
		return verdict{why: "it is no Mac's"}, nil
	}
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := reader.List(ctx, hosts, client.UnsafeDisableDeepCopy); err != nil {
		return verdict{}, fmt.Errorf("listing hosts: %w", err)
	}
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := reader.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
		return verdict{}, fmt.Errorf("listing Machines: %w", err)
	}
	claims := host.NodeClaims(node, hosts.Items)
	return verdict{why: host.KeepNode(node, claims, host.OwnersOf(machines.Items)), node: node, claims: claims}, nil
}

// mayGo deletes a Node that no Machine has, once its Cluster is here and not paused,
// and its Machine had the time to be restored.
func (r *Reconciler) mayGo(ctx context.Context, v verdict) (ctrl.Result, error) {
	log := ctrl.LoggerFrom(ctx)
	clusters, err := r.clusters(ctx, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	if why := host.NodeWaits(clusters); why != "" {
		log.V(1).Info("A Node that no Machine has is left for now", "why", why)
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	if left := r.patience(v); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	n := v.node
	if err := r.Client.Delete(ctx, n, condemned(n)); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: time.Second}, nil // it has changed: look again
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.lone.Forget(n.Name)
	log.Info("Deleted the Node of a Mac that no Machine has", "providerID", n.Spec.ProviderID)
	r.Recorder.Eventf(n, nil, corev1.EventTypeWarning, reasonDeleted, "DeleteNode", "no Machine has this Mac: its Node is deleted")
	return ctrl.Result{}, nil
}

// condemned is what must still hold of a Node that is deleted. Which Mac it is never
// changes once it has a providerID. What else is in it the Mac may write at any time:
// a thief of its key could otherwise keep it by doing nothing else.
func condemned(n *corev1.Node) client.Preconditions {
	if n.Spec.ProviderID != "" {
		return client.Preconditions{UID: &n.UID}
	}
	return client.Preconditions{UID: &n.UID, ResourceVersion: &n.ResourceVersion}
}

// patience is how long a Node is still left. One that Cluster API never knew was
// never a Machine's, and a released one will not be again.
func (r *Reconciler) patience(v verdict) time.Duration {
	_, known := v.node.Annotations[clusterv1.ClusterNameAnnotation]
	if !known || released(v) != nil {
		return 0
	}
	now := r.Clock.Now()
	return restoring - now.Sub(r.lone.since(v.node, now))
}

// released is the host among those that the Node may be that is being released.
func released(v verdict) *host.Host {
	for _, h := range v.claims {
		if h.Spec.Release != nil && h.Spec.ClaimRef != nil {
			return h
		}
	}
	return nil
}
