package fleetsecret

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/fleetkey"
)

// SSHKey is the SSH key of a fleet. It never prints itself.
type SSHKey struct {
	Signer ssh.Signer
	// Public is the authorized_keys line, as the vendor gets it.
	Public string
	// seed keys the digests of passwords; it is derived from the private half.
	seed []byte
	// previous is the key before, while Macs may know it alone; nil: there is none.
	previous *SSHKey
}

// Publics are the public halves that may log in, the one in use first.
func (k SSHKey) Publics() []string {
	if k.previous == nil {
		return []string{k.Public}
	}
	return []string{k.Public, k.previous.Public}
}

// Others are those to offer after the one in use.
func (k SSHKey) Others() []ssh.Signer {
	if k.previous == nil {
		return nil
	}
	return []ssh.Signer{k.previous.Signer}
}

// Seeds are all that digests of passwords may have been made with.
func (k SSHKey) Seeds() [][]byte {
	if k.previous == nil {
		return [][]byte{k.seed}
	}
	return [][]byte{k.seed, k.previous.seed}
}

// String shows the public half only.
func (k SSHKey) String() string { return k.Public }

// GoString shows the public half only.
func (k SSHKey) GoString() string { return k.Public }

// NotRegisteredError says that a fleet's key is there and could not be registered with
// the vendor: Macs that are installed from now on may not know it.
type NotRegisteredError struct {
	Fleet string
	Err   error
}

// Error names the fleet, and gives the vendor's answer.
func (e *NotRegisteredError) Error() string {
	return fmt.Sprintf("registering the SSH key of fleet %s with the vendor: %v", e.Fleet, e.Err)
}

// Unwrap returns the vendor's answer.
func (e *NotRegisteredError) Unwrap() error { return e.Err }

// SSH returns the fleet's key, which is made when missing, and has it registered with
// the vendor: before any Mac of the fleet is claimed, for the vendor injects keys when
// it installs, and only then. Made is true with an error, too, and a
// *NotRegisteredError comes with the key.
func (s *Store) SSH(ctx context.Context, fleet Fleet) (key SSHKey, made bool, err error) {
	name := fleet.SSHSecret()
	secret, made, err := s.ensure(ctx, name, func() (*corev1.Secret, error) { return newSSHSecret(fleet) })
	if err != nil {
		return SSHKey{}, made, err
	}
	if key, err = parseSSH(secret); err != nil {
		return SSHKey{}, made, err
	}
	return key, made, s.register(ctx, fleet, key)
}

// ReadSSH returns the fleet's key as it is, and registers nothing.
func (s *Store) ReadSSH(ctx context.Context, fleet Fleet) (SSHKey, error) {
	secret, err := s.read(ctx, fleet.SSHSecret())
	if err != nil {
		return SSHKey{}, err
	}
	return parseSSH(secret)
}

// Registered reports that this process knows of a registered key of the fleet.
func (s *Store) Registered(fleet Fleet) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fleets[fleet.SSHSecret()]
}

// Names are those under which this process knows keys to be registered.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.keys))
}

// Forget has a key registered again before it is next relied on: the vendor does not
// have it any more under this name.
func (s *Store) Forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, name)
	clear(s.fleets) // each fleet looks once more
}

// register has the vendor put the key on the Macs that it installs from now on.
func (s *Store) register(ctx context.Context, fleet Fleet, key SSHKey) error {
	name := fleetkey.Name(fleetkey.Owner{Cluster: s.ClusterID, Namespace: fleet.Namespace, Fleet: fleet.Name}, key.Public)
	s.mu.Lock()
	known := s.keys[name]
	s.mu.Unlock()
	if known {
		return nil
	}
	if err := s.Keys.EnsureSSHKey(ctx, name, key.Public); err != nil {
		return &NotRegisteredError{Fleet: fleet.Name, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys, s.fleets = map[string]bool{}, map[client.ObjectKey]bool{}
	}
	s.keys[name], s.fleets[fleet.SSHSecret()] = true, true
	return nil
}

func parseSSH(secret *corev1.Secret) (SSHKey, error) {
	keys, err := fleetkey.Read(secret)
	if err != nil {
		return SSHKey{}, err
	}
	key := keyOf(keys[0])
	if len(keys) > 1 {
		previous := keyOf(keys[1])
		key.previous = &previous
	}
	return key, nil
}

func keyOf(key fleetkey.Signer) SSHKey {
	return SSHKey{Signer: key.Signer, Public: key.Public(), seed: passwordSeed(key.Private)}
}

// passwordSeed keys the digests of passwords: hosts can be read by many, and a
// plain hash of a vendor's password could be searched for.
func passwordSeed(privateKey []byte) []byte {
	mac := hmac.New(sha256.New, privateKey)
	mac.Write([]byte("macfleet password attempts"))
	return mac.Sum(nil)
}

func newSSHSecret(fleet Fleet) (*corev1.Secret, error) {
	name := fleet.SSHSecret()
	private, public, err := NewKey(name.Name)
	if err != nil {
		return nil, err
	}
	return fleet.secretOf(name, map[string][]byte{fleetkey.KeyPrivate: private, fleetkey.KeyPublic: public}), nil
}

// NewKey makes an SSH key, in the form that a fleet's Secret holds it in.
func NewKey(comment string) (private, public []byte, err error) {
	half, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making an SSH key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding an SSH key: %w", err)
	}
	line, err := ssh.NewPublicKey(half)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding an SSH public key: %w", err)
	}
	return pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(line), nil
}
