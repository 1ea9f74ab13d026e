package show

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// reliefTime is how long a pressure may last before a person is called to it: the agent
// removes images and ends Pods meanwhile, and a Node keeps the condition for five minutes.
const reliefTime = 15 * time.Minute

// nodeFindings are Macs whose Node is Ready and yet not healthy: one under pressure takes no
// Pods.
func nodeFindings(s *snapshot.Snapshot, _ reasons.Book) []finding {
	var found []finding
	for i := range s.Machines {
		m := &s.Machines[i]
		c := pressureOf(s, m)
		if c == nil {
			continue
		}
		f := finding{of("machine", m, *c), s.At.Sub(c.LastTransitionTime.Time) >= reliefTime}
		f.Command = story(m)
		found = append(found, f)
	}
	return found
}

// pressureOf is why a Machine's Node takes no Pods though it is Ready. Cluster API's condition
// NodeHealthy tells of it, so that no Node has to be read. nil: it is well, or the Machine's own
// conditions tell more. Of a Mac that waits for its turn, or whose change failed, they tell less.
func pressureOf(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) *metav1.Condition {
	core := CoreOf(s, m)
	if core == nil || core.DeletionTimestamp != nil {
		return nil
	}
	if c := Hindrance(Conditions(s, m)); c != nil && c.Type != infrav1.UpToDateCondition && c.Type != infrav1.SlotsHealthyCondition {
		return nil
	}
	c := meta.FindStatusCondition(core.Status.Conditions, clusterv1.MachineNodeHealthyCondition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != clusterv1.MachineNodeNotHealthyReason {
		return nil
	}
	pressure := *c
	pressure.Message = strings.ReplaceAll(c.Message, "* ", "")
	return &pressure
}
