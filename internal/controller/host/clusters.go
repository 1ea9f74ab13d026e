package host

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// clustersOf are the Clusters that a host may be of, uncached: that of its claim,
// or, without a claim, all that use its zone.
func (r *Reconciler) clustersOf(ctx context.Context, h *host.Host) ([]host.ClusterState, error) {
	if claim := h.Spec.ClaimRef; claim != nil {
		state, err := r.clusterState(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Cluster})
		return []host.ClusterState{state}, err
	}
	used := &infrav1.ScalewayAppleSiliconClusterList{}
	if err := r.Reader.List(ctx, used); err != nil {
		return nil, fmt.Errorf("listing the Clusters' infrastructure: %w", err)
	}
	var states []host.ClusterState
	for i := range used.Items {
		infra := &used.Items[i]
		if !slices.Contains(infra.Spec.Zones, h.Spec.Zone) {
			continue
		}
		state, err := r.clusterState(ctx, client.ObjectKey{Namespace: infra.Namespace, Name: ownerCluster(infra)})
		if err != nil {
			return nil, err
		}
		state.Paused = state.Paused || annotations.HasPaused(infra)
		state.Deleting = state.Deleting || !infra.DeletionTimestamp.IsZero()
		states = append(states, state)
	}
	return states, nil
}

// ownerCluster is the name of the Cluster that core set as the owner, or that the
// label names.
func ownerCluster(infra *infrav1.ScalewayAppleSiliconCluster) string {
	for _, owner := range infra.OwnerReferences {
		if owner.Kind == "Cluster" {
			return owner.Name
		}
	}
	return infra.Labels[clusterv1.ClusterNameLabel]
}

// clusterState reads one Cluster. One that has no name is not here.
func (r *Reconciler) clusterState(ctx context.Context, key client.ObjectKey) (host.ClusterState, error) {
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
