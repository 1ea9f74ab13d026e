package show

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// reliefTime is how long a pressure may last before a person is called to it: the agent
// removes images and ends Pods meanwhile, and a Node keeps the condition for five minutes.
const reliefTime = 15 * time.Minute

// nodeFindings are Macs whose Node is Ready and yet not healthy: one under pressure takes no
// Pods. Cluster API's condition NodeHealthy tells of it, so that no Node has to be read.
func nodeFindings(s *snapshot.Snapshot, _ reasons.Book) []finding {
	var found []finding
	for i := range s.Machines {
		m := &s.Machines[i]
		core := CoreOf(s, m)
		if core == nil || core.DeletionTimestamp != nil || Hindrance(m.Status.Conditions) != nil {
			continue // which tells more
		}
		c := meta.FindStatusCondition(core.Status.Conditions, clusterv1.MachineNodeHealthyCondition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != clusterv1.MachineNodeNotHealthyReason {
			continue
		}
		f := finding{of("machine", m, *c), s.At.Sub(c.LastTransitionTime.Time) >= reliefTime}
		f.Message = strings.ReplaceAll(f.Message, "* ", "")
		f.Command = story(m)
		found = append(found, f)
	}
	return found
}
