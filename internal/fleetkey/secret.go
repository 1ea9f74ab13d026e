package fleetkey

import (
	"fmt"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
)

// SecretSuffix follows a fleet's name in the name of the Secret with its SSH key.
const SecretSuffix = "-ssh"

// Keys of that Secret.
const (
	KeyPrivate = "ssh-privatekey"
	KeyPublic  = "ssh-publickey"
	// KeyLegacy is where the first system keeps the private half.
	KeyLegacy = "id_ed25519"
	// KeyPrevious is the private half that Macs may still know while the fleet's key
	// is replaced.
	KeyPrevious = "ssh-privatekey-previous"
)

// Signer is a private half from a fleet's Secret. It never prints itself.
type Signer struct {
	ssh.Signer
	// Private is its encoding.
	Private []byte
}

// String shows the public half only.
func (s Signer) String() string { return publicOf(s.Signer) }

// GoString shows the public half only.
func (s Signer) GoString() string { return s.String() }

// Public is the line of authorized_keys.
func (s Signer) Public() string { return publicOf(s.Signer) }

// Read returns the keys of a fleet's Secret: the one in use, and while it is replaced
// the one before.
func Read(secret *corev1.Secret) ([]Signer, error) {
	current := KeyPrivate
	if len(secret.Data[current]) == 0 && len(secret.Data[KeyLegacy]) > 0 {
		current = KeyLegacy
	}
	key, err := read(secret, current)
	if err != nil {
		return nil, err
	}
	if len(secret.Data[KeyPrevious]) == 0 {
		return []Signer{key}, nil
	}
	previous, err := read(secret, KeyPrevious)
	if err != nil {
		return nil, err
	}
	if previous.Public() == key.Public() {
		return []Signer{key}, nil
	}
	return []Signer{key, previous}, nil
}

func read(secret *corev1.Secret, name string) (Signer, error) {
	private := secret.Data[name]
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		// The parser's words could quote the key.
		return Signer{}, fmt.Errorf("the key %s of Secret %s is no usable SSH private key (of the key in use, %s is read, too, as the first system has it)", name, secret.Name, KeyLegacy)
	}
	return Signer{Signer: signer, Private: private}, nil
}
