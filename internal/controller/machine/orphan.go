package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines;machinesets;machinedeployments,verbs=get

// missingOwner reads, uncached, the objects of core's that own the Machine, and those
// that own them: Machine, MachineSet, MachineDeployment, Cluster. It names the first
// that does not exist, or exists under another UID than ownerReferences name, and is
// empty where all are there. The API server deletes what such an object owned, and
// core follows down to this Machine. After a restore they all have new UIDs, until
// core has mended the references.
func (r *Reconciler) missingOwner(ctx context.Context, owned client.Object) (string, error) {
	for _, ref := range owned.GetOwnerReferences() {
		owner := ownerObject(ref)
		if owner == nil {
			continue
		}
		err := r.Reader.Get(ctx, client.ObjectKey{Namespace: owned.GetNamespace(), Name: ref.Name}, owner)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading %s %s, which owns %s: %w", ref.Kind, ref.Name, owned.GetName(), err)
		}
		if err != nil || owner.GetUID() != ref.UID {
			return fmt.Sprintf("%s %s of UID %s", ref.Kind, ref.Name, ref.UID), nil
		}
		if missing, err := r.missingOwner(ctx, owner); err != nil || missing != "" {
			return missing, err
		}
	}
	return "", nil
}

// ownerObject is an empty object of core's that the reference can be read into; nil
// for what others own it by.
func ownerObject(ref metav1.OwnerReference) client.Object {
	if group, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || group.Group != clusterv1.GroupVersion.Group {
		return nil
	}
	switch ref.Kind {
	case "Machine":
		return &clusterv1.Machine{}
	case "MachineSet":
		return &clusterv1.MachineSet{}
	case "MachineDeployment":
		return &clusterv1.MachineDeployment{}
	case "Cluster":
		return &clusterv1.Cluster{}
	}
	return nil
}
