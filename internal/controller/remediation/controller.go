// Package remediation mends Machines that a MachineHealthCheck found unhealthy.
// Each ScalewayAppleSiliconRemediation is a ladder for one Machine: restart the
// agent, reboot the Mac, and at last give the Machine up so that its owner replaces
// it. Which step is next is decided in package host; this package asks for the
// steps on the infra machine and on the host, whose controllers make them. Judging
// Machines, and making and removing these objects, is Cluster API core's.
package remediation

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/requeue"
	"github.com/macfleet/macfleet/internal/watch"
)

// finalizer on a remediation keeps it until what it asked for is taken back: a reboot
// must not come after the Node is well again. Written by macfleet.
const finalizer = "scalewayapplesiliconremediation.infrastructure.cluster.x-k8s.io/finalizer"

// holdPoll is how often a remediation looks again that waits for what no watch tells.
const holdPoll = 30 * time.Second

// Options of the controller. Client, Reader, Zone and Recorder must be set.
type Options struct {
	Client client.Client
	// Reader reads uncached.
	Reader client.Reader
	// Zone returns how the last list of a zone went, and whether one has ended.
	Zone func(zone string) (host.ZoneReport, bool)
	// Recorder of events.
	Recorder events.EventRecorder
	// WatchFilter is the value of the watch-filter label to obey. Empty: all.
	WatchFilter string
	// Clock for tests. Default: the real one.
	Clock clock.PassiveClock
}

// Reconciler of remediations.
type Reconciler struct{ Options }

// New returns a reconciler with the defaults filled in.
func New(o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{o}
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconremediations,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconremediations/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconhosts,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// SetupWithManager registers the controller. Hosts, Machines and Nodes wake every
// remediation there is: they are few.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(r.all)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("scalewayapplesiliconremediation").
		For(&infrav1.ScalewayAppleSiliconRemediation{}).
		Watches(&infrav1.ScalewayAppleSiliconMachine{}, all, builder.WithPredicates(machineChanges())).
		Watches(&infrav1.ScalewayAppleSiliconHost{}, all, builder.WithPredicates(hostChanges())).
		Watches(&corev1.Node{}, all, builder.WithPredicates(nodeChanges())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the remediation controller: %w", err)
	}
	return nil
}

func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &infrav1.ScalewayAppleSiliconRemediationList{}
	if err := r.Client.List(ctx, list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing remediations to wake")
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

func machineChanges() predicate.Predicate {
	return watch.Updates(func(before, now *infrav1.ScalewayAppleSiliconMachine) bool {
		return before.Status.Applied.Restart != now.Status.Applied.Restart || before.Spec.ProviderID != now.Spec.ProviderID ||
			sshFails(before) != sshFails(now)
	})
}

func hostChanges() predicate.Predicate {
	return watch.Updates(func(before, now *infrav1.ScalewayAppleSiliconHost) bool {
		return before.Status.LastReboot.ID != now.Status.LastReboot.ID || before.Status.Phase != now.Status.Phase ||
			(before.Spec.Maintenance == nil) != (now.Spec.Maintenance == nil) ||
			(before.Spec.Reboot == nil) != (now.Spec.Reboot == nil)
	})
}

func nodeChanges() predicate.Predicate {
	return watch.Updates(func(before, now *corev1.Node) bool {
		return !maps.Equal(conditionsOf(before), conditionsOf(now))
	})
}

// conditionsOf a Node by their types: a health check may look at any.
func conditionsOf(node *corev1.Node) map[corev1.NodeConditionType]corev1.ConditionStatus {
	found := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range node.Status.Conditions {
		found[c.Type] = c.Status
	}
	return found
}

// Reconcile looks at one remediation and does the next thing.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	remediation := &infrav1.ScalewayAppleSiliconRemediation{}
	if err := r.Client.Get(ctx, req.NamespacedName, remediation); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !host.Obeys(remediation, r.WatchFilter) {
		return ctrl.Result{}, nil
	}
	v, err := r.load(ctx, remediation)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !remediation.DeletionTimestamp.IsZero() {
		return requeue.OnConflict(ctrl.Result{}, r.leave(ctx, v))
	}
	switch {
	case v.owner == nil:
		return ctrl.Result{}, nil
	case v.paused():
		return ctrl.Result{RequeueAfter: holdPoll}, nil // no watch tells that the pause is over
	case v.leaving():
		return requeue.OnConflict(ctrl.Result{}, r.withdraw(ctx, v))
	}
	if controllerutil.AddFinalizer(remediation, finalizer) {
		return requeue.OnConflict(ctrl.Result{}, r.patch(ctx, remediation, v.before))
	}
	return r.step(ctx, v)
}

// step decides, asks for what follows, and records it.
func (r *Reconciler) step(ctx context.Context, v *visit) (ctrl.Result, error) {
	next := host.NextRemediation(v.input(r.Clock.Now()))
	if err := r.act(ctx, v, next); err != nil {
		return requeue.OnConflict(ctrl.Result{}, err)
	}
	if err := r.record(ctx, v, next); err != nil {
		return requeue.OnConflict(ctrl.Result{}, err)
	}
	return ctrl.Result{RequeueAfter: r.wait(next)}, nil
}

// wait is when to look again for what no watch tells.
func (r *Reconciler) wait(next host.RemediationStep) time.Duration {
	if next.Until.IsZero() {
		return holdPoll // as what the Machine's owner answers, and what a person writes on the Machine
	}
	return min(max(next.Until.Sub(r.Clock.Now()), time.Millisecond), holdPoll) // nor that the health check is gone
}

// leave takes back what was asked for and lets the object go.
func (r *Reconciler) leave(ctx context.Context, v *visit) error {
	if !controllerutil.ContainsFinalizer(v.remediation, finalizer) {
		return nil
	}
	if err := r.withdraw(ctx, v); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(v.remediation, finalizer)
	return client.IgnoreNotFound(r.patch(ctx, v.remediation, v.before))
}

// ownerMachine names the Machine that a remediation is for: core makes it the
// owner, and gives both one name.
func ownerMachine(remediation *infrav1.ScalewayAppleSiliconRemediation) string {
	for _, owner := range remediation.OwnerReferences {
		if owner.Kind == "Machine" && owner.Name == remediation.Name && isClusterAPI(owner.APIVersion) {
			return owner.Name
		}
	}
	return ""
}

func isClusterAPI(apiVersion string) bool {
	group, _, found := strings.Cut(apiVersion, "/")
	return found && group == clusterv1.GroupVersion.Group
}
