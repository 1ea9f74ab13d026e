package show

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/workload"
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

// NeedsNodes says whether a snapshot has Machines whose Nodes tell what their own conditions do
// not know: those that are paused.
func NeedsNodes(s *snapshot.Snapshot) bool {
	return slices.ContainsFunc(s.Machines, func(m infrav1.ScalewayAppleSiliconMachine) bool { return PauseOf(s, &m) != nil })
}

// Conditions are a Machine's. Nobody writes its NodeReady while it is paused: its Node, where that
// is in the snapshot, says then what the condition would.
func Conditions(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) []metav1.Condition {
	at := slices.IndexFunc(m.Status.Conditions, func(c metav1.Condition) bool { return c.Type == infrav1.NodeReadyCondition })
	if at < 0 || len(s.Nodes) == 0 || !slices.Contains(ofReadiness, m.Status.Conditions[at].Reason) || PauseOf(s, m) == nil {
		return m.Status.Conditions
	}
	node := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == m.Name })
	if node < 0 {
		return m.Status.Conditions
	}
	now := readiness(&s.Nodes[node])
	if now.Reason == m.Status.Conditions[at].Reason {
		return m.Status.Conditions
	}
	conditions := slices.Clone(m.Status.Conditions)
	conditions[at] = now
	return conditions
}

// ofReadiness are the reasons of NodeReady that a Node's readiness alone decides.
var ofReadiness = []string{infrav1.NodeReadyCondition, infrav1.ReasonNodeNotReady, infrav1.ReasonNodeUnreachable, infrav1.ReasonNodeMissing}

// readiness is a Node's, in the words of a Machine's NodeReady.
func readiness(node *corev1.Node) metav1.Condition {
	c := metav1.Condition{
		Type: infrav1.NodeReadyCondition, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(workload.ReadinessChanged(node)),
	}
	switch {
	case workload.NodeSilent(node):
		c.Reason = infrav1.ReasonNodeUnreachable
		c.Message = fmt.Sprintf("Node %s is not heard of, as the control plane noticed at %s: the Mac is off, cut off, or its agent does not run", node.Name, stamp(&c.LastTransitionTime))
	case !workload.NodeReady(node):
		c.Reason, c.Message = infrav1.ReasonNodeNotReady, fmt.Sprintf("Node %s is not Ready", node.Name)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, infrav1.NodeReadyCondition
	}
	return c
}

// Resume is what to type to have a paused Machine go on: it, or its Cluster.
func Resume(m *infrav1.ScalewayAppleSiliconMachine) string {
	if annotations.HasPaused(m) {
		return fmt.Sprintf("macfleet machine resume %s -n %s", m.Name, m.Namespace)
	}
	return fmt.Sprintf("macfleet cluster resume %s -n %s", ClusterName(m), m.Namespace)
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
		f.Command = Resume(m)
		found = append(found, f)
	}
	return found
}
