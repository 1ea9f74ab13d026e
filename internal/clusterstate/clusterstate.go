// Package clusterstate reads of Clusters what package host decides from: whether they
// are here, paused or being deleted; and whether the Cluster that owns an object lets
// its controller work. Get and List are passed a reader that is not a cache.
package clusterstate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// Get reads one Cluster. One that has no name is not here.
func Get(ctx context.Context, reader client.Reader, key client.ObjectKey) (host.ClusterState, error) {
	state := host.ClusterState{Namespace: key.Namespace, Name: key.Name}
	if key.Name == "" {
		state.Missing = true
		return state, nil
	}
	cluster := &clusterv1.Cluster{}
	err := reader.Get(ctx, key, cluster)
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

// List reads the Clusters whose infrastructure is of Macs and fits.
func List(ctx context.Context, reader client.Reader, fits func(*infrav1.ScalewayAppleSiliconCluster) bool) ([]host.ClusterState, error) {
	used := &infrav1.ScalewayAppleSiliconClusterList{}
	if err := reader.List(ctx, used); err != nil {
		return nil, fmt.Errorf("listing the Clusters' infrastructure: %w", err)
	}
	var states []host.ClusterState
	for i := range used.Items {
		infra := &used.Items[i]
		if !fits(infra) {
			continue
		}
		state, err := Get(ctx, reader, client.ObjectKey{Namespace: infra.Namespace, Name: owner(infra)})
		if err != nil {
			return nil, err
		}
		state.Paused = state.Paused || annotations.HasPaused(infra)
		state.Deleting = state.Deleting || !infra.DeletionTimestamp.IsZero()
		states = append(states, state)
	}
	return states, nil
}

// owner is the name of the Cluster that core set as the owner, or that the label names.
func owner(infra *infrav1.ScalewayAppleSiliconCluster) string {
	for _, ref := range infra.OwnerReferences {
		if ref.Kind == "Cluster" {
			return ref.Name
		}
	}
	return infra.Labels[clusterv1.ClusterNameLabel]
}

// Owner reads the Cluster that owns the object, and says in its condition Paused whether
// either is paused. Nil: there is nothing to do before the next event. Core has not set
// the reference yet, the object is paused, or the condition was just written.
func Owner(ctx context.Context, c client.Client, object paused.ConditionSetter) (*clusterv1.Cluster, error) {
	cluster, err := util.GetOwnerCluster(ctx, c, metav1.ObjectMeta{Namespace: object.GetNamespace(), OwnerReferences: object.GetOwnerReferences()})
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the owning Cluster: %w", err)
	}
	if cluster == nil || err != nil {
		return nil, nil
	}
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, c, cluster, object)
	if err != nil || isPaused || requeue {
		return nil, err
	}
	return cluster, nil
}
