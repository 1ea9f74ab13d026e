package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/workload"
)

// SetupWithManager registers the controller, its watches and its jobs.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	for _, pool := range []*jobs{r.pushes, r.leaves, r.checks} {
		if err := mgr.Add(pool); err != nil {
			return fmt.Errorf("adding the jobs of Machines: %w", err)
		}
	}
	if r.Metrics != nil {
		if err := r.metrics.register(r.Metrics); err != nil {
			return err
		}
		if err := r.Metrics.Register(newCensus(r.Client)); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.ScalewayAppleSiliconMachineList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("mapping Clusters to Machines: %w", err)
	}
	kind := infrav1.GroupVersion.WithKind("ScalewayAppleSiliconMachine")
	err = ctrl.NewControllerManagedBy(mgr).
		Named("scalewayapplesiliconmachine").
		For(&infrav1.ScalewayAppleSiliconMachine{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(util.MachineToInfrastructureMapFunc(kind))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster), builder.WithPredicates(clusterChanges())).
		Watches(&infrav1.ScalewayAppleSiliconHost{}, r.hostEvents()).
		Watches(&infrav1.MacNodeProfile{}, handler.EnqueueRequestsFromMapFunc(r.ofProfile)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.ofNode), builder.WithPredicates(nodeChanges())).
		WatchesRawSource(source.Channel(r.pushes.wakeups, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(r.checks.wakeups, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(r.leaves.wakeups, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Concurrency}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Machine controller: %w", err)
	}
	return nil
}

// clusterChanges are those that a Machine waits for.
func clusterChanges() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, was := e.ObjectOld.(*clusterv1.Cluster)
			now, is := e.ObjectNew.(*clusterv1.Cluster)
			if !was || !is {
				return false
			}
			return infrastructureProvisioned(before) != infrastructureProvisioned(now) ||
				before.Generation != now.Generation || before.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero()
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// nodeChanges leaves out the heartbeats.
func nodeChanges() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, was := e.ObjectOld.(*corev1.Node)
			now, is := e.ObjectNew.(*corev1.Node)
			if !was || !is {
				return false
			}
			return workload.NodeReady(before) != workload.NodeReady(now) || before.Spec.ProviderID != now.Spec.ProviderID || slotNews(before, now)
		},
	}
}

func (r *Reconciler) ofNode(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, func(m *infrav1.ScalewayAppleSiliconMachine) bool { return m.Name == object.GetName() })
}

func (r *Reconciler) ofProfile(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		return m.Namespace == object.GetNamespace() && m.Spec.ProfileRef != nil && m.Spec.ProfileRef.Name == object.GetName()
	})
}

// requests lists the Machines that a test picks, from the cache.
func (r *Reconciler) requests(ctx context.Context, picks func(*infrav1.ScalewayAppleSiliconMachine) bool) []reconcile.Request {
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing Machines to wake")
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if picks(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}
