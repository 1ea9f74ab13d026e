package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// TokenLifetime is how long a Mac has to use its bootstrap token.
	TokenLifetime = time.Hour

	// JoinGroup is the only group of our bootstrap tokens; it is bound to
	// system:node-bootstrapper and to nothing else.
	JoinGroup = "system:bootstrappers:macfleet"

	// BootstrapUserPrefix starts the user name that a bootstrap token stands for.
	BootstrapUserPrefix = bootstrapapi.BootstrapUserPrefix
)

// Token lets one Mac ask for its certificate. It never prints itself.
type Token struct {
	ID      string
	Expires time.Time

	text string
}

// NewToken makes up a token that is good for TokenLifetime.
func NewToken(now time.Time) (Token, error) {
	text, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return Token{}, fmt.Errorf("making a bootstrap token: %w", err)
	}
	return Token{ID: text[:bootstrapapi.BootstrapTokenIDBytes], Expires: now.Add(TokenLifetime), text: text}, nil
}

// Reveal returns <id>.<secret>, for the Mac's bootstrap kubeconfig only.
func (t Token) Reveal() string { return t.text }

// String shows the id, which is no secret.
func (t Token) String() string { return "bootstrap token " + t.ID }

// GoString shows the id, which is no secret.
func (t Token) GoString() string { return t.String() }

// CreateToken makes the token valid. It may log in and nothing else: it is of
// JoinGroup alone, and does not sign.
func CreateToken(ctx context.Context, writer client.Writer, token Token, description string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: tokenSecretName(token.ID)},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			bootstrapapi.BootstrapTokenIDKey:               []byte(token.ID),
			bootstrapapi.BootstrapTokenSecretKey:           []byte(token.text[bootstrapapi.BootstrapTokenIDBytes+1:]),
			bootstrapapi.BootstrapTokenExpirationKey:       []byte(token.Expires.UTC().Format(time.RFC3339)),
			bootstrapapi.BootstrapTokenUsageAuthentication: []byte("true"),
			bootstrapapi.BootstrapTokenExtraGroupsKey:      []byte(JoinGroup),
			bootstrapapi.BootstrapTokenDescriptionKey:      []byte(description),
		},
	}
	if err := writer.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating %s: %w", token, err)
	}
	return nil
}

// IsTokenID reports whether a token may be called so at all.
func IsTokenID(id string) bool { return bootstraputil.IsValidBootstrapTokenID(id) }

// DeleteToken makes the token invalid; one that is gone already is fine.
func DeleteToken(ctx context.Context, writer client.Writer, id string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: tokenSecretName(id)}}
	if err := client.IgnoreNotFound(writer.Delete(ctx, secret)); err != nil {
		return fmt.Errorf("deleting bootstrap token %s: %w", id, err)
	}
	return nil
}

func tokenSecretName(id string) string { return bootstrapapi.BootstrapTokenSecretPrefix + id }
