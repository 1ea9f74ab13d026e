// Package bootstrap keeps MacBootstrapConfig: what Cluster API's contract asks of a
// bootstrap provider, with a Secret that holds nothing. How a Mac joins, and with what,
// is the machine controller's.
package bootstrap

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/macfleet/macfleet/api/bootstrap/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/owner"
)

const (
	kind = "MacBootstrapConfig"

	// secretSuffix makes the name of a Secret from that of its config, so that a move to
	// another management cluster, which drops the status, finds it again.
	secretSuffix = "-no-bootstrap-data"
	// dataKey is where Cluster API keeps bootstrap data in a Secret.
	dataKey = "value"
	// nothing is what the Secret says to people who look for bootstrap data.
	nothing = "# There is no bootstrap data: macfleet makes what a Mac joins with when it joins.\n"

	// tryAgain after a Secret was found that is somebody else's: Secrets are not watched.
	tryAgain = 15 * time.Second
)

// Reconciler of bootstrap configs.
type Reconciler struct {
	Client client.Client
	// Reader reads uncached.
	Reader client.Reader
	// WatchFilter is the value of the watch-filter label to obey. Empty: all.
	WatchFilter string
}

// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=macbootstrapconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=macbootstrapconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=macbootstrapconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,namespace=fleet,verbs=get;create;update

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("macbootstrapconfig").
		For(&bootstrapv1.MacBootstrapConfig{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(ofMachine)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the bootstrap controller: %w", err)
	}
	return nil
}

func ofMachine(_ context.Context, object client.Object) []reconcile.Request {
	machine, is := object.(*clusterv1.Machine)
	if !is {
		return nil
	}
	ref := machine.Spec.Bootstrap.ConfigRef
	if ref.APIGroup != bootstrapv1.GroupVersion.Group || ref.Kind != kind {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: machine.Namespace, Name: ref.Name}}}
}

// ofCluster wakes the configs of a Cluster, which may not be paused any more.
func (r *Reconciler) ofCluster(ctx context.Context, object client.Object) []reconcile.Request {
	configs := &bootstrapv1.MacBootstrapConfigList{}
	of := client.MatchingLabels{clusterv1.ClusterNameLabel: object.GetName()}
	if r.Client.List(ctx, configs, client.InNamespace(object.GetNamespace()), of) != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range configs.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&configs.Items[i])})
	}
	return out
}

// Reconcile looks at one config.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &bootstrapv1.MacBootstrapConfig{}
	if err := r.Client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !config.DeletionTimestamp.IsZero() || !host.Obeys(config, r.WatchFilter) {
		return ctrl.Result{}, nil
	}
	cluster, err := r.cluster(ctx, config)
	if err != nil || cluster == nil {
		return ctrl.Result{}, err
	}
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, config)
	if err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}
	return r.provide(ctx, cluster, config)
}

// cluster is that of the Machine that owns the config. Nil: core has not said yet which
// that is, or one of both is gone.
func (r *Reconciler) cluster(ctx context.Context, config *bootstrapv1.MacBootstrapConfig) (*clusterv1.Cluster, error) {
	machine, err := util.GetOwnerMachine(ctx, r.Client, config.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Machine that owns the config: %w", err)
	}
	if machine == nil || err != nil {
		return nil, nil
	}
	cluster := &clusterv1.Cluster{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.ClusterName}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Cluster of Machine %s: %w", machine.Name, err)
	}
	return cluster, nil
}

// provide sees to it that the Secret is there, and says so.
func (r *Reconciler) provide(ctx context.Context, cluster *clusterv1.Cluster, config *bootstrapv1.MacBootstrapConfig) (ctrl.Result, error) {
	foreign, err := r.ensureSecret(ctx, cluster, config)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := config.DeepCopy()
	derive(config, foreign)
	if !equality.Semantic.DeepEqual(before.Status, config.Status) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Status().Patch(ctx, config, patch); err != nil {
			if apierrors.IsConflict(err) {
				return ctrl.Result{RequeueAfter: time.Second}, nil
			}
			return ctrl.Result{}, fmt.Errorf("recording the status: %w", err)
		}
	}
	if foreign {
		return ctrl.Result{RequeueAfter: tryAgain}, nil
	}
	return ctrl.Result{}, nil
}

// ensureSecret makes the Secret, unless a Secret of that name is there. One that is not
// the config's is somebody else's, and foreign.
func (r *Reconciler) ensureSecret(ctx context.Context, cluster *clusterv1.Cluster, config *bootstrapv1.MacBootstrapConfig) (foreign bool, err error) {
	secret := &corev1.Secret{}
	name := client.ObjectKey{Namespace: config.Namespace, Name: config.Name + secretSuffix}
	err = r.Reader.Get(ctx, name, secret)
	if err == nil {
		if !ours(secret, config) {
			return true, nil
		}
		return false, owner.GiveBack(ctx, r.Client, secret, ownedBy(config))
	}
	if !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading Secret %s: %w", name.Name, err)
	}
	if err := r.Client.Create(ctx, secretOf(cluster, config)); err != nil {
		return false, fmt.Errorf("creating Secret %s: %w", name.Name, err)
	}
	return false, nil
}

// ours: the config controls the Secret; or nobody does, and it holds what ours do. A tool that
// restores backups may leave owners out.
func ours(secret *corev1.Secret, config *bootstrapv1.MacBootstrapConfig) bool {
	if metav1.GetControllerOf(secret) == nil {
		return string(secret.Data[dataKey]) == nothing
	}
	return metav1.IsControlledBy(secret, config)
}

func ownedBy(config *bootstrapv1.MacBootstrapConfig) metav1.OwnerReference {
	return *metav1.NewControllerRef(config, bootstrapv1.GroupVersion.WithKind(kind))
}

func secretOf(cluster *clusterv1.Cluster, config *bootstrapv1.MacBootstrapConfig) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: config.Namespace, Name: config.Name + secretSuffix,
			Labels:          map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
			OwnerReferences: []metav1.OwnerReference{ownedBy(config)},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{dataKey: []byte(nothing)},
	}
}

// derive sets the status. What was once said to be there is not taken back.
func derive(config *bootstrapv1.MacBootstrapConfig, foreign bool) {
	name := config.Name + secretSuffix
	if foreign {
		conditions.Set(config, metav1.Condition{
			Type: bootstrapv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: bootstrapv1.ReasonForeignSecret,
			Message: "Secret " + name + " is not of this MacBootstrapConfig and is left alone: remove it, or rename it",
		})
		return
	}
	config.Status.DataSecretName = name
	config.Status.Initialization.DataSecretCreated = ptr.To(true)
	conditions.Set(config, metav1.Condition{Type: bootstrapv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: bootstrapv1.ReadyCondition})
}
