package api

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

const saysWipes = "its deletion wipes all of them"

// clusterOf is a Cluster with one Machine.
func clusterOf(t *testing.T, m *infrav1.ScalewayAppleSiliconMachine) *clusterv1.Cluster {
	t.Helper()
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: newName(), Namespace: "default"},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "ScalewayAppleSiliconCluster", Name: "c",
		}},
	}
	must(t, api.Create(t.Context(), c))
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: c.Name}
	must(t, clients[clusterAdmin].Create(t.Context(), m))
	return c
}

// awaitDeletion waits until the policy, which learns of a Machine within a moment,
// refuses the Cluster's deletion, or does not any more.
func awaitDeletion(t *testing.T, c *clusterv1.Cluster, refused bool) {
	t.Helper()
	must(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, rights, true, func(ctx context.Context) (bool, error) {
		err := clients[clusterAdmin].Delete(ctx, c.DeepCopy(), client.DryRunAll)
		return (err != nil && strings.Contains(err.Error(), saysWipes)) == refused, nil
	}))
}

// A Cluster's deletion wipes all of its Macs: no slip does it.
func TestAClusterWithMacsIsNotDeletedBySlip(t *testing.T) {
	for _, annotation := range []string{
		"infrastructure.cluster.x-k8s.io/allow-delete",
		"clusterctl.cluster.x-k8s.io/delete-for-move",
	} {
		t.Run(annotation, func(t *testing.T) {
			c := clusterOf(t, referring())
			awaitDeletion(t, c, true)
			refused(t, clients[clusterAdmin].Delete(t.Context(), c.DeepCopy()), "annotate cluster "+c.Name+" infrastructure.cluster.x-k8s.io/allow-delete=")
			c.Annotations = map[string]string{annotation: ""}
			must(t, clients[clusterAdmin].Update(t.Context(), c))
			must(t, clients[clusterAdmin].Delete(t.Context(), c))
		})
	}
	t.Run("no Mac of its own", func(t *testing.T) {
		awaitDeletion(t, clusterOf(t, referring()), true)
		must(t, clients[clusterAdmin].Delete(t.Context(), clusterOf(t, newMachine())))
	})
	t.Run("scaled to nothing", func(t *testing.T) {
		m := referring()
		c := clusterOf(t, m)
		awaitDeletion(t, c, true)
		must(t, clients[clusterAdmin].Delete(t.Context(), m))
		awaitDeletion(t, c, false)
		must(t, clients[clusterAdmin].Delete(t.Context(), c))
	})
}
