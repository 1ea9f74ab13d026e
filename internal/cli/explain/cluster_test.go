package explain

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
)

// A vendor that fails comes back by itself, but not one that rejects the API key.
func TestARejectedKeyDoesNotPass(t *testing.T) {
	const said = "zone fr-par-1: the vendor refuses: 401"
	failing := clitest.Condition(infrav1.DestructionHeldCondition, metav1.ConditionTrue, infrav1.ReasonVendorFailing, said, time.Hour)
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		next       string
		points     int
	}{
		"the vendor is away": {[]metav1.Condition{failing}, "it passes by itself", 1},
		"it rejects the key": {[]metav1.Condition{
			clitest.Condition(infrav1.CredentialsValidCondition, metav1.ConditionFalse, infrav1.ReasonCredentialsRejected, said, time.Hour),
			failing,
			clitest.Condition(infrav1.InventorySyncedCondition, metav1.ConditionFalse, infrav1.ReasonCredentialsRejected, said, time.Hour),
		}, "nothing, before the vendor takes the API key", 2},
	} {
		s := clitest.Fleet()
		s.Zones[0].Status.Conditions = c.conditions
		story := Cluster(s, reasons.Read(), &s.Zones[0])
		if next := point(t, story, infrav1.ReasonVendorFailing).Next; !strings.HasPrefix(next, c.next) || len(story.Points) != c.points {
			t.Errorf("%s: next %q, %d points", name, next, len(story.Points))
		}
	}
}
