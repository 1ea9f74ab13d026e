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

// Among are the references with that of the owner, in the place of one under another version;
// that of a former owner of its name is left out. Those of others stay.
func Among(references []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	kept := slices.DeleteFunc(slices.Clone(references), func(r metav1.OwnerReference) bool {
		return r.Kind == owner.Kind && r.Name == owner.Name && r.UID != owner.UID
	})
	return util.EnsureOwnerRef(kept, owner)
}

// GiveBack writes the Secret, unless its references are those of Among already.
func GiveBack(ctx context.Context, c client.Writer, secret *corev1.Secret, owner metav1.OwnerReference) error {
	owners := Among(secret.OwnerReferences, owner)
	if equality.Semantic.DeepEqual(secret.OwnerReferences, owners) {
		return nil
	}
	secret.OwnerReferences = owners
	if err := c.Update(ctx, secret); err != nil {
		return fmt.Errorf("giving Secret %s back to its owner: %w", secret.Name, err)
	}
	return nil
}
