package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	"github.com/macfleet/macfleet/internal/owner"
)

const (
	// tokenLifetime is asked for; the API server may give less.
	tokenLifetime = 24 * time.Hour
	// renewBefore the end: a third of the lifetime is left to notice a failure.
	renewBefore = tokenLifetime / 3

	// kubeconfigKey is where Cluster API keeps a kubeconfig in a Secret.
	kubeconfigKey = "value"
	// expiryAnnotation on a Secret <cluster>-kubeconfig is when its token ends, RFC 3339.
	// Written by macfleet.
	expiryAnnotation = "controlplane.cluster.x-k8s.io/token-expires"
)

// brought looks whether a kubeconfig came along from the cluster that Macs are nodes of.
func (r *Reconciler) brought(ctx context.Context, cluster *clusterv1.Cluster, seen *observed) error {
	secret := &corev1.Secret{}
	err := r.Reader.Get(ctx, kubeconfigOf(cluster), secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Secret %s: %w", kubeconfigOf(cluster).Name, err)
	}
	seen.brought = err == nil && len(secret.Data[kubeconfigKey]) > 0
	return nil
}

func kubeconfigOf(cluster *clusterv1.Cluster) client.ObjectKey {
	return client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}
}

// kubeconfig sees to it that <cluster>-kubeconfig lets core in for a while yet.
func (r *Reconciler) kubeconfig(ctx context.Context, cluster *clusterv1.Cluster, plane *controlplanev1.ExternalControlPlane, seen *observed) error {
	name := kubeconfigOf(cluster)
	secret := &corev1.Secret{}
	err := r.Reader.Get(ctx, name, secret)
	exists := err == nil
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Secret %s: %w", name.Name, err)
	}
	if plane.Spec.Kubeconfig == controlplanev1.KubeconfigProvided {
		return r.provided(ctx, plane, secret, exists, seen)
	}
	if exists && !ours(secret, plane) {
		seen.foreign = true
		return nil
	}
	good, err := r.good(ctx, secret, &seen.expires)
	if err != nil {
		return err
	}
	if good {
		return owner.GiveBack(ctx, r.Client, secret, ownedBy(plane))
	}
	token, expires, err := r.token(ctx)
	if err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			seen.refused = err
			return nil
		}
		return err
	}
	if err := r.fill(secret, name, cluster, plane, token, expires); err != nil {
		return err
	}
	seen.expires = expires
	ctrl.LoggerFrom(ctx).Info("Kubeconfig minted", "secret", name.Name, "expires", expires)
	return r.write(ctx, secret, exists)
}

// ours: the plane controls the Secret; or nobody does, and it was minted here. A tool that
// restores backups may leave owners out.
func ours(secret *corev1.Secret, plane *controlplanev1.ExternalControlPlane) bool {
	if metav1.GetControllerOf(secret) == nil {
		return secret.Annotations[expiryAnnotation] != ""
	}
	return metav1.IsControlledBy(secret, plane)
}

func ownedBy(plane *controlplanev1.ExternalControlPlane) metav1.OwnerReference {
	return *metav1.NewControllerRef(plane, controlplanev1.GroupVersion.WithKind("ExternalControlPlane"))
}

// provided looks for a kubeconfig that others see to. One that was minted before
// they were asked to is let go of, so that it neither goes with its owner nor is
// fought over; its token is good until they replace it.
func (r *Reconciler) provided(ctx context.Context, plane *controlplanev1.ExternalControlPlane, secret *corev1.Secret, exists bool, seen *observed) error {
	if !exists || len(secret.Data[kubeconfigKey]) == 0 {
		seen.missing = true
		return nil
	}
	seen.foreign = true
	if !metav1.IsControlledBy(secret, plane) {
		return nil
	}
	secret.OwnerReferences = slices.DeleteFunc(secret.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == plane.UID })
	delete(secret.Annotations, expiryAnnotation)
	return r.write(ctx, secret, true)
}

func (r *Reconciler) write(ctx context.Context, secret *corev1.Secret, exists bool) error {
	write := func() error { return r.Client.Create(ctx, secret) }
	if exists {
		write = func() error { return r.Client.Update(ctx, secret) }
	}
	if err := write(); err != nil {
		return fmt.Errorf("writing Secret %s: %w", secret.Name, err)
	}
	return nil
}

// good reports whether the Secret's kubeconfig leads to our server with a token
// that lasts and is taken, and until when.
func (r *Reconciler) good(ctx context.Context, secret *corev1.Secret, expires *time.Time) (bool, error) {
	end, err := time.Parse(time.RFC3339, secret.Annotations[expiryAnnotation])
	if err != nil || !r.now().Add(renewBefore).Before(end) {
		return false, nil
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[kubeconfigKey])
	if err != nil || config.Host != r.Server.URL || !bytes.Equal(config.CAData, r.Server.CA) {
		return false, nil
	}
	taken, err := r.taken(ctx, config.BearerToken)
	if taken {
		*expires = end
	}
	return taken, err
}

// taken asks the API server. A token ends with its ServiceAccount, even where another of
// that name is there: once the chart is installed anew, or a backup is restored.
func (r *Reconciler) taken(ctx context.Context, token string) (bool, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := r.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking whether the kubeconfig's token is taken: %w", err)
	}
	return review.Status.Authenticated && review.Status.User.Username == r.username(), nil
}

// username is what the API server calls the ServiceAccount.
func (r *Reconciler) username() string {
	return "system:serviceaccount:" + r.Namespace + ":" + serviceAccount
}

func (r *Reconciler) now() time.Time {
	if r.Clock == nil {
		return time.Now()
	}
	return r.Clock.Now()
}

// token asks for one for the ServiceAccount that core acts as.
func (r *Reconciler) token(ctx context.Context) (string, time.Time, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: serviceAccount}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second)),
	}}
	if err := r.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", time.Time{}, fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", r.Namespace, serviceAccount, err)
	}
	return request.Status.Token, request.Status.ExpirationTimestamp.Time, nil
}

// fill makes the Secret what Cluster API expects of a kubeconfig.
func (r *Reconciler) fill(secret *corev1.Secret, name client.ObjectKey, cluster *clusterv1.Cluster, plane *controlplanev1.ExternalControlPlane, token string, expires time.Time) error {
	data, err := r.render(cluster.Name, token)
	if err != nil {
		return err
	}
	secret.Namespace, secret.Name = name.Namespace, name.Name
	secret.Type = clusterv1.ClusterSecretType
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	secret.Labels[clusterv1.ClusterNameLabel] = cluster.Name
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[expiryAnnotation] = expires.UTC().Format(time.RFC3339)
	secret.OwnerReferences = owner.Among(secret.OwnerReferences, ownedBy(plane))
	secret.Data = map[string][]byte{kubeconfigKey: data}
	return nil
}

func (r *Reconciler) render(cluster, token string) ([]byte, error) {
	user := cluster + "-" + serviceAccount
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{cluster: {Server: r.Server.URL, CertificateAuthorityData: r.Server.CA}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{cluster: {Cluster: cluster, AuthInfo: user}},
		CurrentContext: cluster,
	}
	data, err := clientcmd.Write(config)
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return data, nil
}
