// Package template foretells the Nodes of machine templates, as Cluster API's contract
// for scaling from zero has it: an autoscaler that has yet to see a Mac reads there what
// one has for Pods. Labels and taints are not in that contract: the chart writes them
// on the MachineDeployment.
package template

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/servertype"
)

// Reconciler of machine templates.
type Reconciler struct {
	Client client.Client
	// Vendor knows what its types of servers have.
	Vendor servertype.Lister
	// WatchFilter is the value of the watch-filter label to obey. Empty: all.
	WatchFilter string
	// Clock for tests. Default: the real one.
	Clock clock.PassiveClock

	types servertype.Types
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachinetemplates/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=macnodeprofiles,verbs=get;list;watch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("scalewayapplesiliconmachinetemplate").
		For(&infrav1.ScalewayAppleSiliconMachineTemplate{}).
		Watches(&infrav1.MacNodeProfile{}, handler.EnqueueRequestsFromMapFunc(r.ofProfile), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller of machine templates: %w", err)
	}
	return nil
}

// ofProfile wakes the templates of a profile: how many guests a Mac has may have changed.
func (r *Reconciler) ofProfile(ctx context.Context, profile client.Object) []reconcile.Request {
	list := &infrav1.ScalewayAppleSiliconMachineTemplateList{}
	if r.Client.List(ctx, list, client.InNamespace(profile.GetNamespace())) != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if profileName(&list.Items[i]) == profile.GetName() {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// profileName is the profile of a template's Machines; empty: the built-in one.
func profileName(t *infrav1.ScalewayAppleSiliconMachineTemplate) string {
	if ref := t.Spec.Template.Spec.ProfileRef; ref != nil {
		return ref.Name
	}
	return ""
}

// Reconcile writes what a template's Nodes will be.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	t := &infrav1.ScalewayAppleSiliconMachineTemplate{}
	if err := r.Client.Get(ctx, req.NamespacedName, t); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading the template: %w", err)
	}
	if !t.DeletionTimestamp.IsZero() || !host.Obeys(t, r.WatchFilter) {
		return ctrl.Result{}, nil
	}
	profile, err := r.profile(ctx, t)
	if err != nil {
		return ctrl.Result{}, err
	}
	kind, again := r.kind(ctx, t)
	want := foretell(t.Status, kind, profile)
	if equality.Semantic.DeepEqual(want, t.Status) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	before := t.DeepCopy()
	t.Status = want
	if err := r.Client.Status().Patch(ctx, t, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing what the Nodes of template %s will be: %w", t.Name, err)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// profile of the template's Machines. One that is not there yet is as the built-in one;
// it wakes the template when it comes.
func (r *Reconciler) profile(ctx context.Context, t *infrav1.ScalewayAppleSiliconMachineTemplate) (*infrav1.MacNodeProfile, error) {
	profile := &infrav1.MacNodeProfile{}
	name := profileName(t)
	if name == "" {
		return profile, nil
	}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: name}, profile)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading profile %s: %w", name, err)
	}
	return profile, nil
}

// kind is what the vendor says of the template's type of server; nothing where the
// template names none, or no zone to ask in. Again, where it is not zero, is when to ask
// again.
func (r *Reconciler) kind(ctx context.Context, t *infrav1.ScalewayAppleSiliconMachineTemplate) (cloud.ServerType, time.Duration) {
	spec := t.Spec.Template.Spec
	if spec.Type == "" || spec.Zone == "" {
		return cloud.ServerType{}, 0
	}
	found, again := r.types.Find(ctx, r.Vendor, spec.Zone, spec.Type, r.Clock.Now())
	if found.Name == "" && again == 0 {
		again = servertype.AskAgain
	}
	return found, again
}
