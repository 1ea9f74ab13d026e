package show

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// What needs a person says what to type, once, where that is one thing.
func TestTheOneThingToType(t *testing.T) {
	const no, yes = metav1.ConditionFalse, metav1.ConditionTrue
	is := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return clitest.Condition(kind, status, reason, "", time.Minute)
	}
	rejected := is(infrav1.CredentialsValidCondition, no, infrav1.ReasonCredentialsRejected)
	kept := is(infrav1.KeptOutCondition, yes, infrav1.ReasonQuarantined)
	unlisted := rejected
	unlisted.Type, unlisted.Message = infrav1.InventorySyncedCondition, "zone fr-par-1: 401"
	for name, c := range map[string]struct {
		kind       string
		conditions []metav1.Condition
		want       string
	}{
		"a key that is rejected":    {"cluster", []metav1.Condition{rejected, unlisted}, "macfleet pool credentials"},
		"a paused Cluster":          {"cluster", []metav1.Condition{is(infrav1.PausedCondition, yes, infrav1.PausedCondition)}, "macfleet cluster resume builds -n ci"},
		"two things":                {"cluster", []metav1.Condition{rejected, is(infrav1.PausedCondition, yes, infrav1.PausedCondition)}, ""},
		"a quarantine":              {"host", []metav1.Condition{kept, is(infrav1.AvailableCondition, no, infrav1.ReasonQuarantined)}, "macfleet host quarantine h --end"},
		"and a wipe that failed":    {"host", []metav1.Condition{kept, is(infrav1.WipedCondition, no, "ReinstallFailed")}, "macfleet host quarantine h --end"},
		"and one that is refused":   {"host", []metav1.Condition{kept, is(infrav1.WipedCondition, no, infrav1.ReasonWipeRejected)}, ""},
		"maintenance of a used Mac": {"host", []metav1.Condition{is(infrav1.KeptOutCondition, yes, "Maintenance"), is(infrav1.AvailableCondition, no, "Claimed")}, "macfleet host maintenance h --end"},
	} {
		s := &snapshot.Snapshot{At: clitest.Now()}
		if c.kind == "host" {
			h := clitest.Host(1, infrav1.HostQuarantined, c.conditions...)
			h.Name = "h"
			s.Hosts = append(s.Hosts, h)
		} else {
			zone := clitest.Fleet().Zones[0]
			zone.Namespace, zone.Name, zone.Status.Conditions = "ci", "builds", c.conditions
			s.Zones = append(s.Zones, zone)
		}
		var text bytes.Buffer
		if err := StatusOf(s, reasons.Read()).Write(&text, screen.Screen{}); err != nil {
			t.Fatal(err)
		}
		want := 0
		if c.want != "" {
			want = 1
		}
		if strings.Count(text.String(), "Type: ") != want || !strings.Contains(text.String(), "Type: "+c.want) && want == 1 {
			t.Errorf("%s: want to type %q once:\n%s", name, c.want, &text)
		}
	}
}
