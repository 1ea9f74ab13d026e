package show

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// PauseOf is what keeps every controller away from a Machine: its own annotation, or its Cluster.
// nil: nothing does. A deletion is held up by the Cluster's pause alone, and its condition is as
// old as that.
func PauseOf(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) *metav1.Condition {
	if m.DeletionTimestamp != nil {
		return clusterPause(s, m)
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, infrav1.PausedCondition); c != nil && Unhealthy(*c) {
		return c
	}
	if !annotations.HasPaused(m) {
		return nil
	}
	return &metav1.Condition{ // no manager has seen it yet
		Type: infrav1.PausedCondition, Status: metav1.ConditionTrue, Reason: infrav1.PausedCondition,
		Message: fmt.Sprintf("ScalewayAppleSiliconMachine has the %s annotation", clusterv1.PausedAnnotation),
	}
}

// clusterPause is the pause of a Machine's Cluster, where that is to be seen.
func clusterPause(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) *metav1.Condition {
	paused := slices.ContainsFunc(s.Clusters, func(c clusterv1.Cluster) bool {
		return c.Namespace == m.Namespace && c.Name == m.Labels[clusterv1.ClusterNameLabel] && ptr.Deref(c.Spec.Paused, false)
	})
	if !paused {
		return nil
	}
	return &metav1.Condition{
		Type: infrav1.PausedCondition, Status: metav1.ConditionTrue, Reason: infrav1.PausedCondition,
		Message: "Cluster spec.paused is set to true, which holds its deletion up",
	}
}

// pauseFindings are the Machines that somebody has paused each for itself. A Cluster's pause
// stands on the Cluster's own line.
func pauseFindings(s *snapshot.Snapshot) []finding {
	var found []finding
	for i := range s.Machines {
		m := &s.Machines[i]
		c := PauseOf(s, m)
		if c == nil || !annotations.HasPaused(m) || m.DeletionTimestamp != nil {
			continue
		}
		f := finding{of("machine", m, *c), true}
		f.Command = fmt.Sprintf("macfleet machine resume %s -n %s", m.Name, m.Namespace)
		found = append(found, f)
	}
	return found
}
