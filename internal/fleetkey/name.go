// Package fleetkey decides about the SSH keys of fleets at the vendor: under which
// name a key is registered, whose a registered key is, and when it is retired. It is
// pure: registering is the machine controller's, retiring controller sshkey's.
package fleetkey

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"golang.org/x/crypto/ssh"
)

// prefix begins the names of all keys that a manager registers.
const prefix = "macfleet."

// Lengths of the parts of a name that are cut: they tell keys apart, and prove
// nothing by themselves.
const (
	clusterLength = 8
	digestLength  = 16
)

// Owner is whose key it is: the fleet of a namespace in a management cluster.
type Owner struct {
	// Cluster identifies the management cluster: the UID of its kube-system namespace.
	Cluster   string
	Namespace string
	Fleet     string
}

// Name is the name under which the owner's key is registered with the vendor:
// macfleet.<cluster>.<namespace>.<fleet>.<digest>. It is the record that this manager
// registered this very key: the digest is of the public half, so that the name on
// another key is no record. A namespace has no dots, a fleet may. It is empty for
// what is no public key.
func Name(o Owner, public string) string {
	digest := digestOf(public)
	if digest == "" {
		return ""
	}
	return prefix + strings.Join([]string{short(o.Cluster), o.Namespace, o.Fleet, digest}, ".")
}

// ParseName says whose key is registered under this name, if this management cluster
// registered it.
func ParseName(cluster, name, public string) (Owner, bool) {
	rest, ours := strings.CutPrefix(name, prefix+short(cluster)+".")
	namespace, rest, hasFleet := strings.Cut(rest, ".")
	end := strings.LastIndexByte(rest, '.')
	if !ours || !hasFleet || namespace == "" || end < 1 {
		return Owner{}, false
	}
	o := Owner{Cluster: cluster, Namespace: namespace, Fleet: rest[:end]}
	return o, Name(o, public) == name
}

// half is type and base64 of a public key, without its comment; empty for what is
// none.
func half(public string) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// Fingerprint is the public key's as ssh-keygen -l shows it; empty for what is none.
func Fingerprint(public string) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	if err != nil {
		return ""
	}
	return ssh.FingerprintSHA256(key)
}

func publicOf(signer ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

func digestOf(public string) string {
	half := half(public)
	if half == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(half))
	return hex.EncodeToString(sum[:])[:digestLength]
}

func short(cluster string) string {
	if len(cluster) > clusterLength {
		cluster = cluster[:clusterLength]
	}
	return cluster
}
