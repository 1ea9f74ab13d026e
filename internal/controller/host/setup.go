package host

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/watch"
)

// Back-off of a host whose Reconcile failed.
const (
	firstBackOff = 500 * time.Millisecond
	longBackOff  = 30 * time.Second
)

// SetupWithManager adds the inventory and the host controller to the manager. The
// inventory is returned for whoever reports on zones.
func SetupWithManager(mgr ctrl.Manager, opts Options) (*Inventory, error) {
	if opts.Registry == nil {
		opts.Registry = ctrlmetrics.Registry
	}
	r, err := New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("macfleet-host"), opts)
	if err != nil {
		return nil, err
	}
	sweep := NewSweep(r)
	for _, runs := range []manager.Runnable{r.Inventory, sweep} {
		if err := mgr.Add(runs); err != nil {
			return nil, fmt.Errorf("adding the inventory and the sweep: %w", err)
		}
	}
	if _, err := register(opts.Registry, &collector{mgr.GetClient(), r.Inventory.running.Load, sweep, r.Clock}); err != nil {
		return nil, err
	}
	return r.Inventory, r.watch(mgr)
}

// New returns a reconciler with its inventory, for whoever runs them without a
// manager: nothing is watched, and without a Registry no metrics are shown. NodeReader and
// NodeWriter default to the reader and the client.
func New(c client.Client, reader client.Reader, recorder events.EventRecorder, opts Options) (*Reconciler, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if opts.NodeReader == nil {
		opts.NodeReader = reader
	}
	if opts.NodeWriter == nil {
		opts.NodeWriter = c
	}
	inventory := newInventory(c, opts)
	opts.Cloud = opts.Rights.RecordRefusals(cloud.Observed(opts.Cloud, inventory.health.Observe))
	inventory.Options = opts
	metrics, err := newMetrics(opts.Registry)
	return &Reconciler{Options: opts, Client: c, Reader: reader, Inventory: inventory, Recorder: recorder, metrics: metrics}, err
}

func (r *Reconciler) watch(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("host").
		For(&host.Host{}, builder.WithPredicates(predicate.NewPredicateFuncs(r.obeys), r.statuses.news())).
		Watches(&infrav1.ScalewayAppleSiliconMachine{}, handler.EnqueueRequestsFromMapFunc(r.hostOf), builder.WithPredicates(concernsHost())).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(hostOfNode), builder.WithPredicates(nodeAppears())).
		WatchesRawSource(source.Channel(r.Inventory.changes, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.Concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstBackOff, longBackOff),
		}).
		Complete(r.Tracer.Reconciler("host", r))
	if err != nil {
		return fmt.Errorf("adding the host controller: %w", err)
	}
	return nil
}

// hostOf maps a Machine to the host it chose. One that anybody can claim stays so until
// it is claimed, and that wakes it; unless its server bears the Machine's name already.
func (r *Reconciler) hostOf(ctx context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*infrav1.ScalewayAppleSiliconMachine)
	if !ok || m.Spec.HostRef == nil {
		return nil
	}
	h := &host.Host{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: m.Spec.HostRef.Name}, h)
	if err == nil && h.Spec.ClaimRef == nil && h.Status.Phase == infrav1.HostAvailable && h.Status.Server.Name != m.Name {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: m.Spec.HostRef.Name}}}
}

// concernsHost: a claim is stranded when its Machine goes, or means another host,
// and no longer when one comes that holds it; and a Machine that begins to wait for its
// host may miss its Secret. Other changes of a Machine that matter here reach the host
// itself. Of an update both hosts are woken.
func concernsHost() predicate.Predicate {
	waits := func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		return conditions.GetReason(m, infrav1.BootstrappedCondition) == infrav1.ReasonWaitingForHost
	}
	return watch.Updates(func(before, now *infrav1.ScalewayAppleSiliconMachine) bool {
		return !equality.Semantic.DeepEqual(before.Spec.HostRef, now.Spec.HostRef) || !waits(before) && waits(now)
	})
}

// obeys keeps to the hosts of this manager's watch filter.
func (o Options) obeys(h client.Object) bool { return host.Obeys(h, o.WatchFilter) }
