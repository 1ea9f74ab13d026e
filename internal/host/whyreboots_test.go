package host_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// The reason of a reboot is recovery's where that asked for it, and nobody has asked since.
func TestWhyRecoveryReboots(t *testing.T) {
	ours := host.BootstrapRebootID("t-1")
	taken := metav1.Condition{Type: host.RebootedCondition, Status: metav1.ConditionTrue, Reason: host.ReasonRebootTaken, Message: "dial failed"}
	dropped := taken
	dropped.Reason = "Dropped"
	for name, c := range map[string]struct {
		asked *infrav1.RebootRequest
		last  string
		says  *metav1.Condition
		want  string
	}{
		"it asks":                        {asked: &infrav1.RebootRequest{ID: ours, Reason: "tart failed"}, want: "tart failed"},
		"it asked last":                  {last: ours, says: &taken, want: "dial failed"},
		"a person asks since":            {asked: &infrav1.RebootRequest{ID: "by-hand", Reason: "fans"}, last: ours, says: &taken},
		"a request after it was dropped": {last: ours, says: &dropped},
		"a person asked last":            {last: "by-hand", says: &taken},
		"nobody asked":                   {},
	} {
		h := host.New("fr-par-1", "11111111-2222-3333-4444-555555555555", "")
		h.Spec.ClaimRef = &infrav1.ClaimReference{Token: "t-1"}
		h.Spec.Reboot, h.Status.LastReboot.ID = c.asked, c.last
		if c.says != nil {
			h.Status.Conditions = []metav1.Condition{*c.says}
		}
		if got := host.WhyRecoveryReboots(h); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if h.Spec.ClaimRef = nil; host.WhyRecoveryReboots(h) != "" && c.asked == nil {
			t.Errorf("%s: of a host without a claim", name)
		}
	}
}

// A person's reboot is told as theirs while it is asked for, and while it may be what the Mac
// comes up from; not one of long ago.
func TestAPersonsReboot(t *testing.T) {
	taken := metav1.Condition{Type: host.RebootedCondition, Status: metav1.ConditionTrue, Reason: host.ReasonRebootTaken, Message: "fans"}
	dropped := taken
	dropped.Reason = host.ReasonRebootDropped
	for name, c := range map[string]struct {
		asked string
		last  string
		ago   time.Duration
		says  metav1.Condition
		want  string
	}{
		"somebody asks":                  {asked: "by-hand-1", want: "somebody asked for it: swap"},
		"somebody asked":                 {last: "by-hand-1", says: taken, want: "somebody asked for it: fans"},
		"a request after it was dropped": {last: "by-hand-1", says: dropped, want: "somebody asked for it"},
		"ten minutes ago":                {last: "by-hand-1", says: taken, ago: 10 * time.Minute},
		"recovery asks since":            {asked: host.BootstrapRebootID("t-1"), last: "by-hand-1", says: taken},
		"recovery asked":                 {last: host.BootstrapRebootID("t-1"), says: taken},
		"recovery of another claim":      {last: host.BootstrapRebootID("t-0"), says: taken},
		"a health check asks":            {asked: host.RemediationRebootID("r-1")},
		"slots are lost":                 {asked: host.LeakRebootID("b-1")},
		"nobody asked":                   {},
	} {
		h := host.New("fr-par-1", "11111111-2222-3333-4444-555555555555", "")
		h.Spec.ClaimRef = &infrav1.ClaimReference{Token: "t-1"}
		if c.asked != "" {
			h.Spec.Reboot = &infrav1.RebootRequest{ID: c.asked, Reason: "swap"}
		}
		h.Status.LastReboot = infrav1.RebootStatus{ID: c.last, At: metav1.NewMicroTime(noon().Add(-c.ago))}
		h.Status.Conditions = []metav1.Condition{c.says}
		if got := host.WhyPersonReboots(h, noon()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
