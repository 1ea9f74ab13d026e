// Package fleetsecret keeps the two Secrets of a fleet: the SSH key that its Macs are
// reached with, which it registers with the vendor, and the key that signs what they
// are told. Which key is retired, and when, package fleetkey decides.
package fleetsecret

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/fleetkey"
)

// Fleet of a namespace.
type Fleet struct {
	Namespace, Name string
	// Cluster that its Secrets move with.
	Cluster string
}

// SSHSecret names the Secret with the fleet's SSH key.
func (f Fleet) SSHSecret() client.ObjectKey {
	return client.ObjectKey{Namespace: f.Namespace, Name: f.Name + fleetkey.SecretSuffix}
}

// SigningSecret names the Secret with the fleet's signing key.
func (f Fleet) SigningSecret() client.ObjectKey {
	return client.ObjectKey{Namespace: f.Namespace, Name: f.Name + "-agent-signing"}
}

// Registrar registers public keys with the vendor's project; a Cloud is one.
type Registrar interface {
	EnsureSSHKey(ctx context.Context, name, publicKey string) error
}

// Store of the keys of all fleets.
type Store struct {
	Client client.Client
	// Reader reads uncached.
	Reader client.Reader
	Keys   Registrar
	// ClusterID identifies the management cluster in the names of keys at the vendor.
	ClusterID string

	// What this process knows to be registered: keys by the names they have at the
	// vendor, and fleets of which one is.
	mu     sync.Mutex
	keys   map[string]bool
	fleets map[client.ObjectKey]bool
}

// secretOf is a Secret of a fleet, which moves with its cluster.
func (f Fleet) secretOf(name client.ObjectKey, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: f.Cluster, clusterctlv1.ClusterctlMoveLabel: ""},
		},
		Data: data,
	}
}

func (s *Store) read(ctx context.Context, name client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := s.Reader.Get(ctx, name, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name.Name, err)
	}
	return secret, nil
}

// ensure returns the Secret of this name, and makes it where there is none. Where
// another pass is faster, its Secret wins and is returned.
func (s *Store) ensure(ctx context.Context, name client.ObjectKey, build func() (*corev1.Secret, error)) (secret *corev1.Secret, made bool, err error) {
	secret, err = s.read(ctx, name)
	if !apierrors.IsNotFound(err) {
		return secret, false, err
	}
	if secret, err = build(); err != nil {
		return nil, false, err
	}
	err = s.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		secret, err = s.read(ctx, name)
		return secret, false, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("creating Secret %s: %w", name.Name, err)
	}
	return secret, true, nil
}
