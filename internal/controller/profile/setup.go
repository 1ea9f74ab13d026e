package profile

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/watch"
	"github.com/macfleet/macfleet/internal/workload"
)

// SetupWithManager registers the controller and its watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := r.metrics.register(r.Metrics); err != nil {
		return err
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("macnodeprofile").
		For(&infrav1.MacNodeProfile{}).
		Watches(&infrav1.ScalewayAppleSiliconMachine{}, handler.EnqueueRequestsFromMapFunc(ofMachine)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.ofNode), builder.WithPredicates(nodeChanges())).
		Watches(&clusterv1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(r.ofDeployment)).
		Watches(&infrav1.ScalewayAppleSiliconMachineTemplate{}, handler.EnqueueRequestsFromMapFunc(ofTemplate), builder.WithPredicates(newTemplates())).
		WatchesRawSource(source.Channel(r.ClientCAChanged, handler.EnqueueRequestsFromMapFunc(r.all))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the profile controller: %w", err)
	}
	return nil
}

// ofMachine wakes the Machine's profile, the built-in one included.
func ofMachine(_ context.Context, object client.Object) []reconcile.Request {
	m, is := object.(*infrav1.ScalewayAppleSiliconMachine)
	if !is {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: profileName(m)}}}
}

func (r *Reconciler) ofNode(ctx context.Context, object client.Object) []reconcile.Request {
	return r.ofMachines(ctx, func(m *infrav1.ScalewayAppleSiliconMachine) bool { return m.Name == object.GetName() })
}

// all wakes the profiles of all Machines.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.ofMachines(ctx, func(*infrav1.ScalewayAppleSiliconMachine) bool { return true })
}

// ofMachines wakes the profiles of the Machines that a test picks.
func (r *Reconciler) ofMachines(ctx context.Context, picks func(*infrav1.ScalewayAppleSiliconMachine) bool) []reconcile.Request {
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing Machines to wake their profiles")
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if m := &list.Items[i]; picks(m) {
			out = append(out, ofMachine(ctx, m)...)
		}
	}
	return out
}

func (r *Reconciler) ofDeployment(ctx context.Context, object client.Object) []reconcile.Request {
	md, is := object.(*clusterv1.MachineDeployment)
	if !is {
		return nil
	}
	name, err := r.profileOf(ctx, md)
	if err != nil || name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: md.Namespace, Name: name}}}
}

// ofTemplate wakes the profile of the Machines that are made of the template. Its
// MachineDeployment may have been seen before it, and then told of no profile.
func ofTemplate(_ context.Context, object client.Object) []reconcile.Request {
	t, is := object.(*infrav1.ScalewayAppleSiliconMachineTemplate)
	if !is || t.Spec.Template.Spec.ProfileRef == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: t.Namespace, Name: t.Spec.Template.Spec.ProfileRef.Name}}}
}

// newTemplates leaves out changes: what a template says of its Machines never changes.
func newTemplates() predicate.Predicate {
	return watch.Updates(func(_, _ *infrav1.ScalewayAppleSiliconMachineTemplate) bool { return false })
}

// nodeChanges leaves out the heartbeats.
func nodeChanges() predicate.Predicate {
	return watch.Updates(func(before, now *corev1.Node) bool {
		return workload.NodeReady(before) != workload.NodeReady(now) || !workload.DiskPressureSince(before).Equal(workload.DiskPressureSince(now)) ||
			before.Spec.ProviderID != now.Spec.ProviderID ||
			!equality.Semantic.DeepEqual(before.Labels, now.Labels) || !equality.Semantic.DeepEqual(before.Spec.Taints, now.Spec.Taints)
	})
}
