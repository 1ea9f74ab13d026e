package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clusterstate"
	"github.com/macfleet/macfleet/internal/host"
)

// clusters are those that a Node may be of, read uncached: that of the release, or
// the one that Cluster API wrote on the Node, or else all that have Macs.
func (r *Reconciler) clusters(ctx context.Context, v verdict) ([]host.ClusterState, error) {
	key, known := clusterOf(v.node)
	if h := released(v); h != nil && h.Spec.ClaimRef.Namespace != host.NoNamespace {
		key, known = client.ObjectKey{Namespace: h.Spec.ClaimRef.Namespace, Name: h.Spec.ClaimRef.Cluster}, true
	}
	if !known {
		return clusterstate.List(ctx, r.Reader, func(*infrav1.ScalewayAppleSiliconCluster) bool { return true })
	}
	state, err := clusterstate.Get(ctx, r.Reader, key)
	return []host.ClusterState{state}, err
}

// clusterOf is the Cluster that Cluster API wrote on a Node of its.
func clusterOf(n *corev1.Node) (client.ObjectKey, bool) {
	key := client.ObjectKey{Namespace: n.Annotations[clusterv1.ClusterNamespaceAnnotation], Name: n.Annotations[clusterv1.ClusterNameAnnotation]}
	return key, key.Name != ""
}
