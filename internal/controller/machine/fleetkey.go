package machine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"sync"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/fleetkey"
	"github.com/macfleet/macfleet/internal/host"
)

const (
	keyPrivate  = fleetkey.KeyPrivate
	keyPublic   = fleetkey.KeyPublic
	keyPrevious = fleetkey.KeyPrevious
)

// KeyRegistrar registers public keys with the vendor's project; a Cloud is one.
type KeyRegistrar interface {
	EnsureSSHKey(ctx context.Context, name, publicKey string) error
}

// registered remembers, for this process, which keys the vendor knows, by the names
// they have there.
type registered struct {
	mu     sync.Mutex
	keys   map[string]bool
	fleets map[client.ObjectKey]bool
}

// hasFleet reports that a key of the fleet, named by its Secret, was registered.
func (k *registered) hasFleet(secret client.ObjectKey) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fleets[secret]
}

func (k *registered) has(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys[name]
}

func (k *registered) add(secret client.ObjectKey, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil {
		k.keys, k.fleets = map[string]bool{}, map[client.ObjectKey]bool{}
	}
	k.keys[name], k.fleets[secret] = true, true
}

// fleetKey is the SSH key of a fleet. It never prints itself.
type fleetKey struct {
	signer ssh.Signer
	// public is the authorized_keys line, as the vendor gets it.
	public string
	// seed keys the digests of passwords; it is derived from the private half.
	seed []byte
	// previous is the key before, while Macs may know it alone; nil: there is none.
	previous *fleetKey
}

// publics are the public halves that may log in, the one in use first.
func (k fleetKey) publics() []string {
	if k.previous == nil {
		return []string{k.public}
	}
	return []string{k.public, k.previous.public}
}

// others are those to offer after the one in use.
func (k fleetKey) others() []ssh.Signer {
	if k.previous == nil {
		return nil
	}
	return []ssh.Signer{k.previous.signer}
}

// seeds are all that digests of passwords may have been made with.
func (k fleetKey) seeds() [][]byte {
	if k.previous == nil {
		return [][]byte{k.seed}
	}
	return [][]byte{k.seed, k.previous.seed}
}

// String shows the public half only.
func (k fleetKey) String() string { return k.public }

// GoString shows the public half only.
func (k fleetKey) GoString() string { return k.public }

// fleetSecret names the Secret with the SSH key of the Machine's fleet.
func (v *visit) fleetSecret() client.ObjectKey {
	return client.ObjectKey{Namespace: v.machine.Namespace, Name: v.fleet() + fleetkey.SecretSuffix}
}

// ensureFleetKey returns the key of the Machine's fleet, which is made when
// missing, and registered with the vendor before any Mac of the fleet is
// claimed: the vendor injects keys when it installs, and only then.
func (r *Reconciler) ensureFleetKey(ctx context.Context, v *visit) (fleetKey, error) {
	name := v.fleetSecret()
	key, err := r.readFleetKey(ctx, name)
	if apierrors.IsNotFound(err) {
		key, err = r.makeFleetKey(ctx, v, name)
	}
	if err != nil {
		return fleetKey{}, err
	}
	return key, r.register(ctx, v, key)
}

// register has the vendor put the key on the Macs that it installs from now on.
func (r *Reconciler) register(ctx context.Context, v *visit, key fleetKey) error {
	owner := fleetkey.Owner{Cluster: r.ClusterID, Namespace: v.machine.Namespace, Fleet: v.fleet()}
	name := fleetkey.Name(owner, key.public)
	if r.registered.has(name) {
		return nil
	}
	if err := r.Keys.EnsureSSHKey(ctx, name, key.public); err != nil {
		return fmt.Errorf("registering the SSH key of fleet %s with the vendor: %w", v.fleet(), err)
	}
	r.registered.add(v.fleetSecret(), name)
	return nil
}

func (r *Reconciler) makeFleetKey(ctx context.Context, v *visit, name client.ObjectKey) (fleetKey, error) {
	secret, err := newFleetKeySecret(name, v.machine.Labels[clusterv1.ClusterNameLabel])
	if err != nil {
		return fleetKey{}, err
	}
	secret, made, err := r.keepFleetSecret(ctx, secret)
	if err != nil {
		return fleetKey{}, err
	}
	if made {
		r.warnOfNewKey(ctx, v)
	}
	return parseFleetKey(secret)
}

func (r *Reconciler) readFleetKey(ctx context.Context, name client.ObjectKey) (fleetKey, error) {
	secret, err := r.readFleetSecret(ctx, name)
	if err != nil {
		return fleetKey{}, err
	}
	return parseFleetKey(secret)
}

func parseFleetKey(secret *corev1.Secret) (fleetKey, error) {
	keys, err := fleetkey.Read(secret)
	if err != nil {
		return fleetKey{}, err
	}
	key := keyOf(keys[0])
	if len(keys) > 1 {
		previous := keyOf(keys[1])
		key.previous = &previous
	}
	return key, nil
}

func keyOf(key fleetkey.Signer) fleetKey {
	return fleetKey{signer: key.Signer, public: key.Public(), seed: passwordSeed(key.Private)}
}

// warnOfNewKey tells when a fleet that has Macs got another key: nobody reaches
// them with it, and nothing else would say so before the next failure.
func (r *Reconciler) warnOfNewKey(ctx context.Context, v *visit) {
	bereft := r.macsOfFleet(ctx, v)
	if bereft == 0 {
		return
	}
	note := fmt.Sprintf("Secret %s was not there and was made anew: %d Macs of fleet %s know another key, and nobody can reach them by SSH; restore the Secret, or delete their Machines", v.fleetSecret().Name, bereft, v.fleet())
	r.event(v.machine, transition{corev1.EventTypeWarning, "FleetKeyReplaced", note})
	ctrl.LoggerFrom(ctx).Info("A fleet that has Macs got another SSH key", "fleet", v.fleet(), "macs", bereft)
}

// macsOfFleet counts the Macs that the Machine's fleet has brought up.
func (r *Reconciler) macsOfFleet(ctx context.Context, v *visit) int {
	fleet := v.fleet()
	return len(r.requests(ctx, func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		same := m.Labels[infrav1.FleetLabel] == fleet || m.Spec.FleetName == fleet
		taken := !host.TakesOver(m) || m.Status.Applied.Agent != "" // else it knows no key of ours yet
		return same && taken && m.Namespace == v.machine.Namespace && m.Spec.ProviderID != ""
	}))
}

// newFleetKeySecret makes a key.
func newFleetKeySecret(name client.ObjectKey, cluster string) (*corev1.Secret, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making an SSH key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, name.Name)
	if err != nil {
		return nil, fmt.Errorf("encoding an SSH key: %w", err)
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("encoding an SSH public key: %w", err)
	}
	return fleetSecret(name, cluster, map[string][]byte{
		keyPrivate: pem.EncodeToMemory(block),
		keyPublic:  ssh.MarshalAuthorizedKey(line),
	}), nil
}

// ForgetKey has a key registered again before it is next relied on: the vendor does
// not have it any more under this name.
func (r *Reconciler) ForgetKey(name string) { r.registered.forget(name) }

func (k *registered) forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.keys, name)
	clear(k.fleets) // each fleet looks once more
}
