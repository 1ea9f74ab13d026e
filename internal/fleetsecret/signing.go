package fleetsecret

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// SigningKey signs what Macs of a fleet are told, and the builds that they take. It
// never prints itself.
type SigningKey struct{ private ed25519.PrivateKey }

// String shows nothing of the key.
func (SigningKey) String() string { return "agent signing key" }

// GoString shows nothing of the key.
func (k SigningKey) GoString() string { return k.String() }

// Public is the half that Macs are given.
func (k SigningKey) Public() []byte { return k.private.Public().(ed25519.PublicKey) }

// Signer signs what one Mac is told in one install epoch.
func (k SigningKey) Signer(mac document.Host, now func() time.Time) *document.Signer {
	return document.NewSigner(k.private, mac, now)
}

// Signing returns the signing key of the fleet, which is made when missing. Macs keep
// the first public half they are given in an install epoch: where the key is lost,
// they do nothing they are told until they are wiped.
func (s *Store) Signing(ctx context.Context, fleet Fleet) (key SigningKey, made bool, err error) {
	secret, made, err := s.ensure(ctx, fleet.SigningSecret(), func() (*corev1.Secret, error) { return newSigningSecret(fleet) })
	if err != nil {
		return SigningKey{}, made, err
	}
	key, err = parseSigningKey(secret)
	return key, made, err
}

// ReadSigning returns the signing key of the fleet as it is.
func (s *Store) ReadSigning(ctx context.Context, fleet Fleet) (SigningKey, error) {
	secret, err := s.read(ctx, fleet.SigningSecret())
	if err != nil {
		return SigningKey{}, err
	}
	return parseSigningKey(secret)
}

func parseSigningKey(secret *corev1.Secret) (SigningKey, error) {
	// The parser's words could quote the key.
	unusable := fmt.Errorf("the key %s of Secret %s is no ed25519 private key in PEM: restore it, or delete the Secret and wipe the fleet's Macs", keySigning, secret.Name)
	block, _ := pem.Decode(secret.Data[keySigning])
	if block == nil || block.Type != pemPrivate {
		return SigningKey{}, unusable
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return SigningKey{}, unusable
	}
	private, is := parsed.(ed25519.PrivateKey)
	if !is {
		return SigningKey{}, unusable
	}
	return SigningKey{private}, nil
}

func newSigningSecret(fleet Fleet) (*corev1.Secret, error) {
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
	return fleet.secretOf(fleet.SigningSecret(), map[string][]byte{
		keySigning: pem.EncodeToMemory(&pem.Block{Type: pemPrivate, Bytes: privateDER}),
		keyVerify:  pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: publicDER}),
	}), nil
}
