package machine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
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
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/watch"
	"github.com/macfleet/macfleet/internal/workload"
)

// SetupWithManager registers the controller, its watches and its jobs.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	for _, pool := range []*job.Pool{r.pushes, r.leaves, r.checks} {
		if err := mgr.Add(pool); err != nil {
			return fmt.Errorf("adding the jobs of Machines: %w", err)
		}
	}
	if r.Metrics != nil {
		if err := r.metrics.register(r.Metrics); err != nil {
			return err
		}
		if err := r.Metrics.Register(newMachineCollector(r.Client, r.Clock)); err != nil {
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
		// What a profile counts changes with each of its Macs, and would wake all of them each time.
		Watches(&infrav1.MacNodeProfile{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfProfile), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfNode), builder.WithPredicates(nodeChanges())).
		WatchesRawSource(source.Channel(r.pushes.Wakeups(), &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(r.checks.Wakeups(), &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(r.leaves.Wakeups(), &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Concurrency}).
		Complete(r.Tracer.Reconciler("machine", r))
	if err != nil {
		return fmt.Errorf("setting up the Machine controller: %w", err)
	}
	return nil
}

// clusterChanges are those that a Machine waits for.
func clusterChanges() predicate.Predicate {
	changes := watch.Updates(func(before, now *clusterv1.Cluster) bool {
		return machine.InfrastructureProvisioned(before) != machine.InfrastructureProvisioned(now) ||
			before.Generation != now.Generation || before.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero()
	})
	changes.GenericFunc = func(event.GenericEvent) bool { return false }
	return changes
}

// nodeChanges leaves out the heartbeats.
func nodeChanges() predicate.Predicate {
	return watch.Updates(func(before, now *corev1.Node) bool {
		return workload.NodeReady(before) != workload.NodeReady(now) || before.Spec.ProviderID != now.Spec.ProviderID || slotNews(before, now) || scaleDownNews(before, now)
	})
}

// scaleDownNews reports that somebody has changed whether the autoscaler may remove a Node.
func scaleDownNews(before, now *corev1.Node) bool {
	const key = infrav1.ScaleDownDisabledAnnotation
	return before.Annotations[key] != now.Annotations[key]
}

// slotNews reports that a Node tells something else of its places.
func slotNews(before, now *corev1.Node) bool {
	a, b := host.LeakOf(before, nil), host.LeakOf(now, nil)
	return a.Leaked != b.Leaked || a.Foreign != b.Foreign || a.BootID != b.BootID || a.Places != b.Places
}

func (r *Reconciler) machinesOfNode(ctx context.Context, object client.Object) []reconcile.Request {
	return r.machines.requests(ctx, func(m *infrav1.ScalewayAppleSiliconMachine) bool { return m.Name == object.GetName() })
}

func (r *Reconciler) machinesOfProfile(ctx context.Context, object client.Object) []reconcile.Request {
	return r.machines.requests(ctx, func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		return m.Namespace == object.GetNamespace() && m.Spec.ProfileRef != nil && m.Spec.ProfileRef.Name == object.GetName()
	})
}

// queue of Machines to look at.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// hostEvents wakes the Machines that mean a host, and, when it becomes free or
// other than it was, those that wait for one like it, in turns. A host that stays
// free as it was wakes nobody: whoever waits has looked at it already.
func (r *Reconciler) hostEvents() handler.EventHandler {
	wake := func(ctx context.Context, q queue, before, now client.Object) {
		meant, waiting := r.machinesOfHost(ctx, asHost(before), asHost(now))
		for _, request := range meant {
			q.Add(request)
		}
		for rank, request := range waiting {
			q.AddAfter(request, wakeDelay(rank))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, q, nil, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { wake(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, q, nil, e.Object) },
	}
}

func asHost(object client.Object) *host.Host {
	h, _ := object.(*host.Host)
	return h
}

// wakeStep is how long a claim takes to be seen by those that come later.
const wakeStep = 250 * time.Millisecond

// wakeDelay is how long a waiting Machine leaves a freed host to those before it: one
// host needs one Machine, and a crowd that reaches for it at once only meets
// conflicts. The first comes at once, and each group is twice as large as all before.
func wakeDelay(rank int) time.Duration {
	return time.Duration(bits.Len(uint(rank))) * wakeStep
}

// machinesOfHost are the Machines to wake for a host: those that mean it, and those that
// wait for one like it, the ones that this host prefers first. Before is nil where
// it was not known.
func (r *Reconciler) machinesOfHost(ctx context.Context, before, now *host.Host) (meant, waiting []reconcile.Request) {
	if now == nil {
		return nil, nil
	}
	free := available(now) && !(available(before) && sameOffer(before, now))
	meant = r.machines.requests(ctx, func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		if ref := m.Spec.HostRef; ref != nil {
			return ref.Name == now.Name || host.MeansClaim(now, m)
		}
		if legacy, is := host.LegacyServer(m); is {
			return legacy.ServerID == now.Spec.ServerID
		}
		return now.Name == host.OrderName(m.Name) // an older order, which this Machine's may wait for
	})
	if !free {
		return meant, nil
	}
	waiting = r.machines.requests(ctx, func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		_, legacy := host.LegacyServer(m)
		return m.Spec.HostRef == nil && m.DeletionTimestamp.IsZero() && !legacy && !machine.OrdersServer(m) && r.mayFit(m, now)
	})
	slices.SortFunc(waiting, func(a, b reconcile.Request) int {
		return cmp.Compare(host.RendezvousScore(b.Namespace, b.Name, now), host.RendezvousScore(a.Namespace, a.Name, now))
	})
	return meant, waiting
}

func available(h *host.Host) bool {
	return h != nil && h.Spec.ClaimRef == nil && h.Status.Phase == infrav1.HostAvailable
}

// sameOffer: what a Machine may ask of a host has not changed.
func sameOffer(a, b *host.Host) bool {
	return maps.Equal(a.Labels, b.Labels) && a.Status.Server.Type == b.Status.Server.Type &&
		a.Status.Server.OSFamily == b.Status.Server.OSFamily && a.Status.Server.Name == b.Status.Server.Name
}

// mayFit leaves out Machines that by their own words cannot take the host. A zone
// that comes from elsewhere is not looked up here: the Machine will see.
func (r *Reconciler) mayFit(m *infrav1.ScalewayAppleSiliconMachine, h *host.Host) bool {
	wish, err := r.offer().Requirements(machine.Snapshot{Machine: m}, r.Clock.Now())
	if err != nil {
		return false
	}
	wish.Zone = cmp.Or(wish.Zone, h.Spec.Zone)
	return host.Fits(wish, h)
}
