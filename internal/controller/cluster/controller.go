// Package cluster shows the zones of a Cluster: as failure domains with the
// number of hosts in each, and whether the vendor's credentials and lists work.
// It asks the vendor nothing itself; the inventory of the host controller does.
package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clusterstate"
	"github.com/macfleet/macfleet/internal/host"
)

// Attributes of a failure domain.
const (
	// attributeTotal counts the hosts known in the zone.
	attributeTotal = "hosts-total"
	// attributeAvailable counts those that can be claimed now.
	attributeAvailable = "hosts-available"
)

// poll is how often the inventory's report is looked at: it is no object
// that could be watched.
const poll = 10 * time.Second

// Inventory tells how the last list of a zone went; false before there was one.
type Inventory interface {
	Zone(zone string) (host.ZoneReport, bool)
}

// Reconciler of infra clusters.
type Reconciler struct {
	Client    client.Client
	Inventory Inventory
	// Recorder of events. Nil: there are none.
	Recorder events.EventRecorder
	// Metrics is where the metrics go. Nil: nowhere.
	Metrics prometheus.Registerer
	// WatchFilter is the value of the watch-filter label to obey. Empty: all.
	WatchFilter string
	// Clock for tests. Default: the real one.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconclusters/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Metrics != nil {
		if err := r.Metrics.Register(newCollector(r.Client)); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	kind := infrav1.GroupVersion.WithKind("ScalewayAppleSiliconCluster")
	ofCluster := util.ClusterToInfrastructureMapFunc(context.Background(), kind, r.Client, &infrav1.ScalewayAppleSiliconCluster{})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("scalewayapplesiliconcluster").
		For(&infrav1.ScalewayAppleSiliconCluster{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster)).
		Watches(&infrav1.ScalewayAppleSiliconHost{}, handler.EnqueueRequestsFromMapFunc(r.ofHost)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Cluster controller: %w", err)
	}
	return nil
}

// ofHost wakes the clusters of the host's zone: their counts may have changed.
func (r *Reconciler) ofHost(ctx context.Context, object client.Object) []reconcile.Request {
	h, is := object.(*infrav1.ScalewayAppleSiliconHost)
	list := &infrav1.ScalewayAppleSiliconClusterList{}
	if !is || r.Client.List(ctx, list) != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if slices.Contains(list.Items[i].Spec.Zones, h.Spec.Zone) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// Reconcile derives the status of one infra cluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	infra := &infrav1.ScalewayAppleSiliconCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, infra); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.ignores(infra) {
		return ctrl.Result{}, nil
	}
	if cluster, err := clusterstate.Owner(ctx, r.Client, infra); err != nil || cluster == nil {
		return ctrl.Result{}, err
	}
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := r.Client.List(ctx, hosts, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing hosts: %w", err)
	}
	return r.record(ctx, infra, hosts.Items)
}

func (r *Reconciler) ignores(infra *infrav1.ScalewayAppleSiliconCluster) bool {
	return !infra.DeletionTimestamp.IsZero() || annotations.IsExternallyManaged(infra) || !host.Obeys(infra, r.WatchFilter)
}

func (r *Reconciler) record(ctx context.Context, infra *infrav1.ScalewayAppleSiliconCluster, hosts []infrav1.ScalewayAppleSiliconHost) (ctrl.Result, error) {
	reports := map[string]host.ZoneReport{}
	for _, zone := range infra.Spec.Zones {
		if report, listed := r.Inventory.Zone(zone); listed {
			reports[zone] = report
		}
	}
	before := infra.DeepCopy()
	derive(infra, reports, hosts, r.now())
	if equality.Semantic.DeepEqual(before.Status, infra.Status) {
		return ctrl.Result{RequeueAfter: poll}, nil
	}
	after := infra.DeepCopy()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.Client.Status().Patch(ctx, infra, patch)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("recording the status: %w", err)
	}
	r.tell(ctx, before, after)
	return ctrl.Result{RequeueAfter: poll}, nil
}

func (r *Reconciler) now() time.Time {
	if r.Clock == nil {
		return time.Now()
	}
	return r.Clock.Now()
}

// tell logs a change of Ready and of what is held, and makes an event of it once
// there was something to change.
func (r *Reconciler) tell(ctx context.Context, before, after *infrav1.ScalewayAppleSiliconCluster) {
	for _, kind := range []string{infrav1.ReadyCondition, infrav1.DestructionHeldCondition} {
		was, now := conditions.Get(before, kind), conditions.Get(after, kind)
		if was != nil && was.Status == now.Status && was.Reason == now.Reason {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Zones of the Cluster", "condition", kind, "status", now.Status, "reason", now.Reason, "message", now.Message)
		if was != nil && r.Recorder != nil {
			r.Recorder.Eventf(after, nil, eventType(now), now.Reason, "Reconcile", "%s is %s: %s", kind, now.Status, now.Message)
		}
	}
}

// eventType warns of what is not as it should be: Ready should be True, and
// nothing should be held.
func eventType(c *metav1.Condition) string {
	if (c.Type == infrav1.DestructionHeldCondition) == (c.Status == metav1.ConditionTrue) {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// derive sets the whole status from the reports of the zones and the hosts.
func derive(infra *infrav1.ScalewayAppleSiliconCluster, reports map[string]host.ZoneReport, hosts []infrav1.ScalewayAppleSiliconHost, now time.Time) {
	infra.Status.FailureDomains = domains(infra.Spec.Zones, hosts)
	credentials, synced := judge(infra.Spec.Zones, reports)
	credentials, synced = settled(infra, credentials), settled(infra, synced)
	conditions.Set(infra, credentials)
	conditions.Set(infra, synced)
	conditions.Set(infra, ready(credentials, synced))
	conditions.Set(infra, settled(infra, judgeHold(infra.Spec.Zones, reports, hosts, now)))
	if everListed(infra.Spec.Zones, reports) {
		infra.Status.Initialization.Provisioned = ptr.To(true)
	}
}

// settled keeps what was known where nothing is known yet: a manager that has
// just started has listed no zone, which is no news about the vendor.
func settled(infra *infrav1.ScalewayAppleSiliconCluster, c metav1.Condition) metav1.Condition {
	if before := conditions.Get(infra, c.Type); before != nil && c.Reason == reasonNotListed {
		return *before
	}
	return c
}

func everListed(zones []string, reports map[string]host.ZoneReport) bool {
	return !slices.ContainsFunc(zones, func(zone string) bool { return reports[zone].At.IsZero() })
}

// domains are the zones, in the order of their names, with their hosts counted.
func domains(zones []string, hosts []infrav1.ScalewayAppleSiliconHost) []clusterv1.FailureDomain {
	out := make([]clusterv1.FailureDomain, 0, len(zones))
	for _, zone := range slices.Sorted(slices.Values(zones)) {
		total, available := 0, 0
		for i := range hosts {
			if hosts[i].Spec.Zone != zone {
				continue
			}
			total++
			if hosts[i].Status.Phase == infrav1.HostAvailable {
				available++
			}
		}
		out = append(out, clusterv1.FailureDomain{
			Name: zone, ControlPlane: ptr.To(false),
			Attributes: map[string]string{attributeTotal: strconv.Itoa(total), attributeAvailable: strconv.Itoa(available)},
		})
	}
	return out
}

func ready(parts ...metav1.Condition) metav1.Condition {
	for _, part := range parts {
		if part.Status != metav1.ConditionTrue {
			part.Type = infrav1.ReadyCondition
			return part
		}
	}
	return metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyCondition}
}
