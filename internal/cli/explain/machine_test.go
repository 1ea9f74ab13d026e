package explain

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
)

// A Machine without a Mac has no server whose name could be another.
func TestAMachineWithoutAMacWaitsForNoServersName(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	waits := func(m *infrav1.ScalewayAppleSiliconMachine, status metav1.ConditionStatus) bool {
		m.Status.Conditions = append(m.Status.Conditions, clitest.Condition(infrav1.BootstrappedCondition, status, infrav1.ReasonWaitingForHost, "", time.Minute))
		story := Machine(s, book, m)
		return slices.ContainsFunc(story.Points, func(p Point) bool { return p.Reason == infrav1.ReasonWaitingForHost })
	}
	if waits(&s.Machines[3], metav1.ConditionUnknown) {
		t.Error("a Machine that has no Mac tells of its server")
	}
	s.Machines[2].Status.Conditions = s.Machines[2].Status.Conditions[:1]
	if !waits(&s.Machines[2], metav1.ConditionFalse) {
		t.Error("a Machine whose server is not ready says nothing of it")
	}
}
