package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// clusters are those that a Node may be of, read uncached: that of the release, or
// the one that Cluster API wrote on the Node, or else all that have Macs.
func (r *Reconciler) clusters(ctx context.Context, v verdict) ([]host.ClusterState, error) {
	if h := released(v); h != nil && h.Spec.ClaimRef.Namespace != host.NoNamespace {
		return r.one(ctx, client.ObjectKey{Namespace: h.Spec.ClaimRef.Namespace, Name: h.Spec.ClaimRef.Cluster})
	}
	if key, known := clusterOf(v.node); known {
		return r.one(ctx, key)
	}
	used := &infrav1.ScalewayAppleSiliconClusterList{}
	if err := r.Reader.List(ctx, used); err != nil {
		return nil, fmt.Errorf("listing the Clusters' infrastructure: %w", err)
	}
	var states []host.ClusterState
	for i := range used.Items {
		infra := &used.Items[i]
		state, err := r.state(ctx, client.ObjectKey{Namespace: infra.Namespace, Name: infra.Labels[clusterv1.ClusterNameLabel]})
		if err != nil {
			return nil, err
		}
		state.Paused = state.Paused || annotations.HasPaused(infra)
		states = append(states, state)
	}
	return states, nil
}

// clusterOf is the Cluster that Cluster API wrote on a Node of its.
func clusterOf(n *corev1.Node) (client.ObjectKey, bool) {
	key := client.ObjectKey{Namespace: n.Annotations[clusterv1.ClusterNamespaceAnnotation], Name: n.Annotations[clusterv1.ClusterNameAnnotation]}
	return key, key.Name != ""
}

func (r *Reconciler) one(ctx context.Context, key client.ObjectKey) ([]host.ClusterState, error) {
	state, err := r.state(ctx, key)
	return []host.ClusterState{state}, err
}

// state reads one Cluster. One that has no name is not here.
func (r *Reconciler) state(ctx context.Context, key client.ObjectKey) (host.ClusterState, error) {
	state := host.ClusterState{Namespace: key.Namespace, Name: key.Name}
	if key.Name == "" {
		state.Missing = true
		return state, nil
	}
	cluster := &clusterv1.Cluster{}
	err := r.Reader.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) {
		state.Missing = true
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("reading Cluster %s: %w", key, err)
	}
	state.Paused, state.Deleting = annotations.IsPaused(cluster, cluster), !cluster.DeletionTimestamp.IsZero()
	return state, nil
}
