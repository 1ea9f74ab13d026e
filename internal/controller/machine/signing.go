package machine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// Keys of the Secret <fleet>-agent-signing.
const (
	keySigning = "private-key"
	keyVerify  = "public-key"
)

// PEM types of the two halves.
const (
	pemPrivate = "PRIVATE KEY"
	pemPublic  = "PUBLIC KEY"
)

// signingKey signs what Macs of a fleet are told, and the builds that they take. It
// never prints itself.
type signingKey struct{ private ed25519.PrivateKey }

// String shows nothing of the key.
func (signingKey) String() string { return "agent signing key" }

// GoString shows nothing of the key.
func (k signingKey) GoString() string { return k.String() }

// public is the half that Macs are given.
func (k signingKey) public() []byte { return k.private.Public().(ed25519.PublicKey) }

// signer signs what one Mac is told in one install epoch.
func (k signingKey) signer(mac document.Host, now func() time.Time) *document.Signer {
	return document.NewSigner(k.private, mac, now)
}

// signingSecret names the Secret with the signing key of the Machine's fleet.
func (v *visit) signingSecret() client.ObjectKey {
	return client.ObjectKey{Namespace: v.machine.Namespace, Name: v.fleet() + "-agent-signing"}
}

// ensureSigningKey returns the signing key of the Machine's fleet, which is made
// when missing. Macs keep the first public half they are given in an install
// epoch: where the key is lost, they do nothing they are told until they are wiped.
func (r *Reconciler) ensureSigningKey(ctx context.Context, v *visit) (signingKey, error) {
	name := v.signingSecret()
	key, err := r.readSigningKey(ctx, name)
	if !apierrors.IsNotFound(err) {
		return key, err
	}
	secret, err := newSigningSecret(name, v.machine.Labels[clusterv1.ClusterNameLabel])
	if err != nil {
		return signingKey{}, err
	}
	secret, made, err := r.keepFleetSecret(ctx, secret)
	if err != nil {
		return signingKey{}, err
	}
	if made {
		r.warnOfNewSigningKey(ctx, v, name.Name)
	}
	return parseSigningKey(secret)
}

// warnOfNewSigningKey tells when a fleet that has Macs got another signing key:
// they refuse what is signed by it, and the next push may be months away.
func (r *Reconciler) warnOfNewSigningKey(ctx context.Context, v *visit, secret string) {
	bereft := r.macsOfFleet(ctx, v)
	if bereft == 0 {
		return
	}
	note := fmt.Sprintf("Secret %s was not there and was made anew: %d Macs of fleet %s know another key, and refuse each push; restore the Secret, or delete their Machines to have them wiped", secret, bereft, v.fleet())
	r.event(v.machine, transition{corev1.EventTypeWarning, "SigningKeyReplaced", note})
	ctrl.LoggerFrom(ctx).Info("A fleet that has Macs got another signing key", "fleet", v.fleet(), "macs", bereft)
}

func (r *Reconciler) readSigningKey(ctx context.Context, name client.ObjectKey) (signingKey, error) {
	secret, err := r.readFleetSecret(ctx, name)
	if err != nil {
		return signingKey{}, err
	}
	return parseSigningKey(secret)
}

func parseSigningKey(secret *corev1.Secret) (signingKey, error) {
	// The parser's words could quote the key.
	unusable := fmt.Errorf("the key %s of Secret %s is no ed25519 private key in PEM: restore it, or delete the Secret and wipe the fleet's Macs", keySigning, secret.Name)
	block, _ := pem.Decode(secret.Data[keySigning])
	if block == nil || block.Type != pemPrivate {
		return signingKey{}, unusable
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return signingKey{}, unusable
	}
	private, is := parsed.(ed25519.PrivateKey)
	if !is {
		return signingKey{}, unusable
	}
	return signingKey{private}, nil
}

func newSigningSecret(name client.ObjectKey, cluster string) (*corev1.Secret, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a signing key: %w", err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("encoding a signing key: %w", err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("encoding a signing key: %w", err)
	}
	return fleetSecret(name, cluster, map[string][]byte{
		keySigning: pem.EncodeToMemory(&pem.Block{Type: pemPrivate, Bytes: privateDER}),
		keyVerify:  pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: publicDER}),
	}), nil
}
