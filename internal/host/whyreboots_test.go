package host_test

import (
	"testing"

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
