package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fleetSecret is a Secret of a fleet, which moves with its cluster.
func fleetSecret(name client.ObjectKey, cluster string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster, clusterctlv1.ClusterctlMoveLabel: ""},
		},
		Data: data,
	}
}

func (r *Reconciler) readFleetSecret(ctx context.Context, name client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := r.Reader.Get(ctx, name, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name.Name, err)
	}
	return secret, nil
}

// keepFleetSecret creates the Secret and says that it did; where another pass was
// faster, its Secret wins and is returned.
func (r *Reconciler) keepFleetSecret(ctx context.Context, secret *corev1.Secret) (kept *corev1.Secret, made bool, err error) {
	err = r.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		kept, err = r.readFleetSecret(ctx, client.ObjectKeyFromObject(secret))
		return kept, false, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("creating Secret %s: %w", secret.Name, err)
	}
	return secret, true, nil
}
