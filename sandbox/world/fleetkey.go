package world

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fleetKey is the fleet's SSH key. The vendor puts a project's keys on a Mac when
// it installs it, so whoever fills a pool registers the key first. The sandbox does
// what such an operator does: it makes the key, registers it, and leaves it in the
// Secret where the manager looks for it.
type fleetKey struct {
	public, private string
}

func newFleetKey() (fleetKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fleetKey{}, fmt.Errorf("making the fleet's key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return fleetKey{}, fmt.Errorf("encoding the fleet's key: %w", err)
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		return fleetKey{}, fmt.Errorf("encoding the fleet's key: %w", err)
	}
	return fleetKey{
		public:  strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line))),
		private: string(pem.EncodeToMemory(block)),
	}, nil
}

// store writes the Secret of the fleet's key.
func (k fleetKey) store(ctx context.Context, a *applier) error {
	return a.apply(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{
			"name": Fleet + "-ssh", "namespace": Namespace,
			"labels": map[string]any{"cluster.x-k8s.io/cluster-name": "macfleet", "clusterctl.cluster.x-k8s.io/move": ""},
		},
		"stringData": map[string]any{"ssh-privatekey": k.private, "ssh-publickey": k.public},
	}})
}
