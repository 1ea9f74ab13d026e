// Package controlplane keeps ExternalControlPlane: it stands for the control
// plane of a cluster that exists already, so that Cluster API core can drain and
// delete Nodes there. It mints the kubeconfig that core uses and renews it. It
// runs no control plane, and tells Macs nothing: their join material is the
// machine controller's.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	"github.com/macfleet/macfleet/internal/clusterstate"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

const (
	// serviceAccount is what core acts as on the workload cluster.
	serviceAccount = "capi-remote"

	// lookAgain: the Secret and the API server are not watched.
	lookAgain = 5 * time.Minute
	// tryAgain after something was missing or refused.
	tryAgain = 15 * time.Second
)

// VersionReader tells the version of the API server; a discovery client is one.
type VersionReader interface {
	ServerVersion() (*version.Info, error)
}

// Server is the API server as core reaches it.
type Server struct {
	URL string
	CA  []byte
}

// Reconciler of external control planes.
type Reconciler struct {
	Client client.Client
	// Reader reads uncached.
	Reader client.Reader
	// Version of the API server.
	Version VersionReader
	// Server is written into the minted kubeconfig.
	Server Server
	// Discovery finds the address that is shown as controlPlaneEndpoint.
	Discovery workload.Discovery
	// Namespace of the ServiceAccount.
	Namespace string
	// WatchFilter is the value of the watch-filter label to obey. Empty: all.
	WatchFilter string
	// Clock for tests. Default: the real one.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=externalcontrolplanes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=externalcontrolplanes/status,verbs=patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=externalcontrolplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,namespace=fleet,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,namespace=fleet,resourceNames=capi-remote,verbs=create
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("externalcontrolplane").
		For(&controlplanev1.ExternalControlPlane{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the control plane controller: %w", err)
	}
	return nil
}

func ofCluster(_ context.Context, object client.Object) []reconcile.Request {
	cluster, is := object.(*clusterv1.Cluster)
	if !is || cluster.Spec.ControlPlaneRef.Kind != "ExternalControlPlane" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}}}
}

// Reconcile looks at one external control plane.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	plane := &controlplanev1.ExternalControlPlane{}
	if err := r.Client.Get(ctx, req.NamespacedName, plane); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !plane.DeletionTimestamp.IsZero() || !host.Obeys(plane, r.WatchFilter) {
		return ctrl.Result{}, nil
	}
	cluster, err := clusterstate.Owner(ctx, r.Client, plane)
	if err != nil || cluster == nil {
		return ctrl.Result{}, err
	}
	return r.visit(ctx, cluster, plane)
}

// observed is what a visit found; the status is derived from it.
type observed struct {
	different bool
	// brought: a kubeconfig of that other cluster came along with a move.
	brought bool
	version string
	expires time.Time
	// foreign: the kubeconfig Secret is somebody else's.
	foreign bool
	// missing: others are to provide the kubeconfig, and have not.
	missing bool
	// refused is why there is no kubeconfig.
	refused error
	// unknown is why there is no endpoint for Macs.
	unknown error
}

func (r *Reconciler) visit(ctx context.Context, cluster *clusterv1.Cluster, plane *controlplanev1.ExternalControlPlane) (ctrl.Result, error) {
	seen, err := r.observe(ctx, cluster, plane)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.record(ctx, plane, seen); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: time.Second}, nil
		}
		return ctrl.Result{}, err
	}
	if seen.refused != nil || seen.unknown != nil || seen.missing {
		return ctrl.Result{RequeueAfter: tryAgain}, nil
	}
	return ctrl.Result{RequeueAfter: lookAgain}, nil
}

// observe learns which cluster this is, records that once, and mints what core
// needs; for another cluster than the recorded one nothing is minted.
func (r *Reconciler) observe(ctx context.Context, cluster *clusterv1.Cluster, plane *controlplanev1.ExternalControlPlane) (observed, error) {
	var seen observed
	system := &corev1.Namespace{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return seen, fmt.Errorf("reading the cluster's identity: %w", err)
	}
	if plane.Spec.ClusterID != "" && plane.Spec.ClusterID != string(system.UID) {
		seen.different = true
		return seen, r.brought(ctx, cluster, &seen)
	}
	info, err := r.Version.ServerVersion()
	if err != nil {
		return seen, fmt.Errorf("asking the API server for its version: %w", err)
	}
	seen.version = info.GitVersion
	if seen.unknown, err = r.adopt(ctx, plane, string(system.UID)); err != nil {
		return seen, err
	}
	return seen, r.kubeconfig(ctx, cluster, plane, &seen)
}

// adopt records the cluster's identity, and where Macs reach it, where nobody
// has said so yet. The first result says why the address is unknown.
func (r *Reconciler) adopt(ctx context.Context, plane *controlplanev1.ExternalControlPlane, id string) (unknown, err error) {
	base := plane.DeepCopy()
	plane.Spec.ClusterID = id
	if plane.Spec.ControlPlaneEndpoint.IsZero() {
		plane.Spec.ControlPlaneEndpoint, unknown, err = r.endpoint(ctx)
		if err != nil {
			return nil, err
		}
	}
	if equality.Semantic.DeepEqual(base.Spec, plane.Spec) {
		return unknown, nil
	}
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, plane, patch); err != nil {
		return nil, fmt.Errorf("recording the cluster's identity: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Cluster recorded", "clusterID", id, "endpoint", plane.Spec.ControlPlaneEndpoint.String())
	return unknown, nil
}

func (r *Reconciler) endpoint(ctx context.Context) (out clusterv1.APIEndpoint, unknown, err error) {
	found, err := r.Discovery.Endpoint(ctx)
	if missing, ok := errors.AsType[*workload.UnknownEndpointError](err); ok {
		return out, missing, nil
	}
	if err != nil {
		return out, nil, err
	}
	if out, err = parseEndpoint(found.Server); err != nil {
		return clusterv1.APIEndpoint{}, err, nil
	}
	return out, nil, nil
}

func parseEndpoint(server string) (clusterv1.APIEndpoint, error) {
	parsed, err := url.Parse(server)
	if err != nil || parsed.Hostname() == "" {
		return clusterv1.APIEndpoint{}, fmt.Errorf("the API server's address %q is no URL", server)
	}
	port := int64(443)
	if text := parsed.Port(); text != "" {
		if port, err = strconv.ParseInt(text, 10, 32); err != nil {
			return clusterv1.APIEndpoint{}, fmt.Errorf("the API server's address %q has no valid port", server)
		}
	}
	return clusterv1.APIEndpoint{Host: parsed.Hostname(), Port: int32(port)}, nil
}

// record derives the status and writes it when it differs.
func (r *Reconciler) record(ctx context.Context, plane *controlplanev1.ExternalControlPlane, seen observed) error {
	before := plane.DeepCopy()
	derive(plane, seen)
	if equality.Semantic.DeepEqual(before.Status, plane.Status) {
		return nil
	}
	after := plane.DeepCopy()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, plane, patch); err != nil {
		return fmt.Errorf("recording the status: %w", err)
	}
	was, now := conditions.GetReason(before, controlplanev1.ReadyCondition), conditions.Get(after, controlplanev1.ReadyCondition)
	if was != now.Reason {
		ctrl.LoggerFrom(ctx).Info("Control plane", "ready", now.Status, "reason", now.Reason, "message", now.Message)
	}
	return nil
}

func derive(plane *controlplanev1.ExternalControlPlane, seen observed) {
	status := &plane.Status
	status.ExternalManagedControlPlane = ptr.To(true)
	if seen.version != "" {
		status.Version = seen.version
	}
	if !seen.expires.IsZero() {
		status.TokenExpiresAt = ptr.To(metav1.NewTime(seen.expires.Truncate(time.Second)))
	} else if seen.foreign {
		status.TokenExpiresAt = nil
	}
	available := kubeconfigCondition(seen)
	conditions.Set(plane, available)
	// A move drops the status, and clusterctl moves no Cluster on, or back, whose control
	// plane does not say that it was initialized.
	if available.Status == metav1.ConditionTrue || seen.brought {
		status.Initialization.ControlPlaneInitialized = ptr.To(true)
	}
	conditions.Set(plane, readyCondition(available, seen))
}

func kubeconfigCondition(seen observed) metav1.Condition {
	c := metav1.Condition{Type: controlplanev1.KubeconfigAvailableCondition, Status: metav1.ConditionTrue, Reason: "Minted"}
	switch {
	case seen.different:
		c.Status, c.Reason = metav1.ConditionFalse, controlplanev1.ReasonDifferentCluster
		c.Message = "spec.clusterID is another cluster's: nothing is minted here"
	case seen.missing:
		c.Status, c.Reason = metav1.ConditionFalse, controlplanev1.ReasonKubeconfigMissing
		c.Message = "spec.kubeconfig is Provided: waiting for somebody to put a kubeconfig under the key " + kubeconfigKey + " of the Secret named <cluster>-kubeconfig"
	case seen.foreign:
		c.Reason, c.Message = controlplanev1.ReasonForeignSecret, "the kubeconfig Secret is not ours and is used as it is"
	case seen.refused != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, controlplanev1.ReasonTokenRefused, seen.refused.Error()
	}
	return c
}

func readyCondition(available metav1.Condition, seen observed) metav1.Condition {
	c := metav1.Condition{Type: controlplanev1.ReadyCondition, Status: metav1.ConditionTrue, Reason: controlplanev1.ReadyCondition}
	switch {
	case available.Status != metav1.ConditionTrue:
		c.Status, c.Reason, c.Message = available.Status, available.Reason, available.Message
	case seen.unknown != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, controlplanev1.ReasonEndpointUnknown, seen.unknown.Error()
	}
	return c
}
