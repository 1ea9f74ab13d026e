// Package owner gives Secrets back to the objects that they go with: backups and moves may
// leave owners out, and a Secret without its owner outlives it.
package owner

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GiveBack writes the Secret where it lacks its owner, or has it under another version, or a
// former one of its name. References to others stay.
func GiveBack(ctx context.Context, c client.Writer, secret *corev1.Secret, owner metav1.OwnerReference) error {
	owners := util.EnsureOwnerRef(slices.Clone(secret.OwnerReferences), owner)
	if equality.Semantic.DeepEqual(secret.OwnerReferences, owners) {
		return nil
	}
	secret.OwnerReferences = owners
	if err := c.Update(ctx, secret); err != nil {
		return fmt.Errorf("giving Secret %s back to its owner: %w", secret.Name, err)
	}
	return nil
}
