package host

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clusterstate"
	"github.com/macfleet/macfleet/internal/host"
)

// clustersOf are the Clusters that a host may be of, uncached: that of its claim,
// or, without a claim, all that use its zone.
func (r *Reconciler) clustersOf(ctx context.Context, h *host.Host) ([]host.ClusterState, error) {
	if claim := h.Spec.ClaimRef; claim != nil {
		state, err := clusterstate.Get(ctx, r.Reader, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Cluster})
		return []host.ClusterState{state}, err
	}
	return clusterstate.List(ctx, r.Reader, func(infra *infrav1.ScalewayAppleSiliconCluster) bool {
		return slices.Contains(infra.Spec.Zones, h.Spec.Zone)
	})
}
