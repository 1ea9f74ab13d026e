package show

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// noInfrastructure is the reason of a Machine of Cluster API that stands for no Mac.
const noInfrastructure = "NoInfrastructure"

// NoInfrastructure is what a Machine of Cluster API is at whose own object of ours is gone, as after the
// release of a stranded Mac: it goes on as if it had a Mac, and its fleet is one short. nil: it
// is not gone, or only just not there.
func NoInfrastructure(s *snapshot.Snapshot, c *clusterv1.Machine) *metav1.Condition {
	ref := c.Spec.InfrastructureRef
	young := s.At.Sub(c.CreationTimestamp.Time) < patience
	if ref.Kind != "ScalewayAppleSiliconMachine" || c.DeletionTimestamp != nil || young || s.Lacks(snapshot.Machines) != "" {
		return nil
	}
	if slices.ContainsFunc(s.Machines, func(m infrav1.ScalewayAppleSiliconMachine) bool {
		return m.Namespace == c.Namespace && m.Name == ref.Name
	}) {
		return nil
	}
	left := metav1.Condition{
		Type: clusterv1.InfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: noInfrastructure,
		Message: fmt.Sprintf("Cluster API's Machine stands for no Mac: its ScalewayAppleSiliconMachine %s is gone", ref.Name),
	}
	if since := meta.FindStatusCondition(c.Status.Conditions, left.Type); since != nil && since.Status != metav1.ConditionTrue {
		left.LastTransitionTime = since.LastTransitionTime
	}
	return &left
}

func noInfrastructureFindings(s *snapshot.Snapshot, _ reasons.Book) []finding {
	var found []finding
	for i := range s.CoreMachines {
		c := &s.CoreMachines[i]
		if left := NoInfrastructure(s, c); left != nil {
			f := finding{of("machine", c, *left), true}
			f.Command = fmt.Sprintf("kubectl -n %s delete machine %s", c.Namespace, c.Name)
			found = append(found, f)
		}
	}
	return found
}
