// Package bootstrapsecret reads and writes the Secret <machine>-bootstrap: what a
// Machine's Mac is reached with, as the host controller puts it there, and the mirror
// of the host's record, from which the record of a lost Host is rebuilt.
package bootstrapsecret

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// Keys that the machine controller alone reads and writes.
const (
	KeyFailures    = "bootstrap-attempts"
	KeyTokenExpiry = "token-expires"
)

// Content is what the Secret of one Machine holds.
type Content struct {
	// Found: the Secret exists.
	Found      bool
	Password   cloud.Password
	User       string
	Address    string
	Epoch      int64
	ClaimToken string
	TokenID    string
	// TokenExpires is set once a bootstrap token was delivered to the Mac.
	TokenExpires time.Time
	// mirror of the host's record.
	mirror mirror
}

// Joinable reports whether the Mac holds a token that may still let it in.
func (c Content) Joinable(now time.Time) bool {
	return c.TokenID != "" && now.Before(c.TokenExpires)
}

func parse(secret *corev1.Secret) Content {
	text := func(key string) string { return string(secret.Data[key]) }
	c := Content{
		Found: true, User: text(host.KeySSHUsername), Address: text(host.KeyAddress), ClaimToken: text(host.KeyClaimToken), TokenID: text(host.KeyTokenID),
		mirror: mirror{hostKey: text(host.KeyHostKey), hardware: text(host.KeyHardware), attempts: text(host.KeyPasswordAttempts), failures: text(KeyFailures)},
	}
	c.Password, _ = cloud.NewPassword(text(host.KeySudoPassword))
	// An unreadable number or time means "not staged" and "not delivered".
	c.Epoch, _ = strconv.ParseInt(text(host.KeyInstallEpoch), 10, 64)
	c.TokenExpires, _ = time.Parse(time.RFC3339, text(KeyTokenExpiry))
	return c
}

// Secrets are those of all Machines.
type Secrets struct {
	Client client.Client
	// Reader reads uncached: Secrets are not watched.
	Reader client.Reader
}

// Read returns what a Machine's Secret holds; without a Secret, Found is false.
func (s Secrets) Read(ctx context.Context, machine client.ObjectKey) (Content, error) {
	name := host.BootstrapSecretName(machine.Name)
	secret := &corev1.Secret{}
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return Content{}, nil
	}
	if err != nil {
		return Content{}, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return parse(secret), nil
}

// Patch sets keys of a Machine's Secret; nil removes one. Both controllers write keys
// of their own at the same time, so only the given ones are sent.
func (s Secrets) Patch(ctx context.Context, machine client.ObjectKey, values map[string]*string) error {
	data := map[string]any{}
	for name, value := range values {
		data[name] = nil
		if value != nil {
			data[name] = []byte(*value)
		}
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: host.BootstrapSecretName(machine.Name)}}
	if err := s.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("recording in Secret %s: %w", secret.Name, err)
	}
	return nil
}

// Clear removes the mirror of a host's record, which the Machine's next host must not
// get.
func (s Secrets) Clear(ctx context.Context, machine client.ObjectKey) error {
	c, err := s.Read(ctx, machine)
	if err != nil || c.mirror == (mirror{}) {
		return err
	}
	err = s.Patch(ctx, machine, map[string]*string{host.KeyHostKey: nil, host.KeyHardware: nil, host.KeyPasswordAttempts: nil, KeyFailures: nil})
	return client.IgnoreNotFound(err)
}
