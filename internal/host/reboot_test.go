package host_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

func wantsReboot(force bool) func(*host.Host) {
	return func(h *host.Host) { h.Spec.Reboot = &infrav1.RebootRequest{ID: "r-1", Reason: "x", Force: force} }
}

func TestNextReboot(t *testing.T) {
	kept := func(h *host.Host) { h.Spec.Maintenance = &infrav1.Maintenance{} }
	for _, c := range []struct {
		name string
		host *host.Host
		gone bool
		want host.RebootStep
	}{
		{"nothing asked", pooled(), false, host.RebootNone},
		{"asked", pooled(wantsReboot(false)), false, host.RebootAsk},
		{"taken already", pooled(wantsReboot(true), func(h *host.Host) { h.Status.LastReboot.ID = "r-1" }), false, host.RebootClear},
		{"another one was taken", pooled(wantsReboot(true), func(h *host.Host) { h.Status.LastReboot.ID = "r-0" }), false, host.RebootAsk},
		{"gone", pooled(wantsReboot(true)), true, host.RebootDrop},
		{"released", pooled(released, wantsReboot(true)), false, host.RebootDrop},
		{"wiping", pooled(wiping, wantsReboot(true)), false, host.RebootDrop},
		{"an order", pooled(wantsReboot(true), func(h *host.Host) { h.Spec.Order = &infrav1.OrderRequest{} }), false, host.RebootDrop},
		{"handed over", pooled(claimed, wantsReboot(true), func(h *host.Host) { h.Spec.Record.HandedOverAt = at(0) }), false, host.RebootDrop},
		{"maintenance", pooled(wantsReboot(false), kept), false, host.RebootWait},
		{"maintenance, by force", pooled(wantsReboot(true), kept), false, host.RebootAsk},
		{"maintenance, by recovery", pooled(claimed, kept, func(h *host.Host) { host.AskForReboot(h, "t-1", "x", noon()) }), false, host.RebootWait},
		{"maintenance, by remediation", pooled(claimed, kept, wantsReboot(true), func(h *host.Host) { h.Spec.Reboot.ID = host.RemediationRebootID("a-uid") }), false, host.RebootWait},
		{"claimed", pooled(claimed, wantsReboot(false)), false, host.RebootAsk},
		{"claimed, but named by others", pooled(claimed, named("acme-1"), wantsReboot(true)), false, host.RebootWait},
		{"reinstalling", pooled(wantsReboot(true), status(cloud.StatusReinstalling)), false, host.RebootWait},
		{"starting", pooled(wantsReboot(true), status(cloud.StatusStarting)), false, host.RebootWait},
		{"locked", pooled(wantsReboot(true), status("locked")), false, host.RebootWait},
		{"a status nobody knows", pooled(wantsReboot(true), status("polishing")), false, host.RebootWait},
		{"claimed and in error", pooled(claimed, wantsReboot(false), status(cloud.StatusError)), false, host.RebootAsk},
		{"in error, and nobody's here", pooled(wantsReboot(true), status(cloud.StatusError)), false, host.RebootWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, why := host.NextReboot(c.host, c.gone)
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if (why == "") == (got == host.RebootDrop || got == host.RebootWait) {
				t.Errorf("%s, because %q", got, why)
			}
		})
	}
}

func TestRequirement003_RebootTakenByKind(t *testing.T) {
	for kind, want := range map[cloud.Kind]bool{
		cloud.KindNotFound: true, cloud.KindTransient: true,
		cloud.KindUnavailable: false, cloud.KindThrottled: false, cloud.KindForbidden: false, cloud.KindLocked: false,
	} {
		if got := host.RebootTaken(&cloud.Error{Kind: kind}); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
	if !host.RebootTaken(nil) {
		t.Error("no error was not taken")
	}
}

func TestClearRebootSpendsTheOneShotOfItsClaimOnly(t *testing.T) {
	ladder := func(token string) *host.Host {
		h := pooled(claimed)
		h.Spec.Record.Bootstrap.ClaimToken, h.Spec.Record.Bootstrap.Attempts = "t-1", 4
		h.Spec.Reboot = &infrav1.RebootRequest{ID: host.BootstrapRebootID(token), Reason: "x"}
		return h
	}
	for _, c := range []struct {
		name           string
		host           *host.Host
		id             string
		cleared, spent bool
	}{
		{"the claim's own", ladder("t-1"), host.BootstrapRebootID("t-1"), true, true},
		{"an earlier claim's", ladder("t-0"), host.BootstrapRebootID("t-0"), true, false},
		{"another request came", ladder("t-1"), "r-1", false, false},
		{"a person's", pooled(claimed, wantsReboot(true)), "r-1", true, false},
		{"nothing asked", pooled(claimed), "r-1", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			host.ClearReboot(c.host, c.id)
			record := c.host.Spec.Record.Bootstrap
			if (c.host.Spec.Reboot == nil) != c.cleared || record.RebootIssued != c.spent || (record.AttemptsAtReboot == 4) != c.spent {
				t.Errorf("got %+v, %+v", c.host.Spec.Reboot, record)
			}
		})
	}
}

func TestReachable(t *testing.T) {
	for _, c := range []struct {
		diagnostic      cloud.Diagnostic
		status          metav1.ConditionStatus
		reason, message string
	}{
		{cloud.Diagnostic{Done: true, Healthy: true}, metav1.ConditionTrue, "Healthy", ""},
		{
			cloud.Diagnostic{Done: true, Advice: []string{"reboot_server", "reinstall_server"}, Message: "no answer on port 22"},
			metav1.ConditionFalse,
			"RebootServer", "the vendor advises reboot_server, reinstall_server: no answer on port 22",
		},
		{cloud.Diagnostic{Done: true, Advice: []string{"-é!"}}, metav1.ConditionFalse, "Unreachable", "the vendor advises -é!"},
		{cloud.Diagnostic{Done: true, Advice: []string{"2_fast"}}, metav1.ConditionFalse, "Unreachable", "the vendor advises 2_fast"},
		{cloud.Diagnostic{Done: true, Message: "failed"}, metav1.ConditionFalse, "Unreachable", "failed"},
	} {
		got := host.Reachable(c.diagnostic)
		if got.Type != infrav1.ReachableCondition || got.Status != c.status || got.Reason != c.reason || got.Message != c.message {
			t.Errorf("%+v: got %+v", c.diagnostic, got)
		}
	}
}

// Once our claim ends, nothing tells whose name the server ought to bear.
func TestARebootEndsWithTheClaimThatAskedForIt(t *testing.T) {
	h := pooled(claimed, named("somebody-elses"), func(h *host.Host) {
		h.Spec.Reboot = &infrav1.RebootRequest{ID: host.BootstrapRebootID("t-1"), Force: true}
	})
	if step, _ := host.NextReboot(h, false); step != host.RebootWait {
		t.Fatalf("step %s of a server that somebody else named", step)
	}
	host.Detach(h, noon())
	if step, _ := host.NextReboot(h, false); step != host.RebootNone {
		t.Errorf("step %s after the claim's end", step)
	}
}

// The API refuses a longer reason, and with it the reboot.
func TestTheReasonOfARebootIsCutToWhatTheAPITakes(t *testing.T) {
	for given, want := range map[string]string{
		"short":                   "short",
		strings.Repeat("x", 256):  strings.Repeat("x", 256),
		strings.Repeat("x", 257):  strings.Repeat("x", 253) + "…",
		strings.Repeat("…", 1000): strings.Repeat("…", 85),
	} {
		if got := host.RebootReason(given); got != want {
			t.Errorf("of %d bytes: %q", len(given), got)
		}
	}
	h := pooled(claimed)
	if host.AskForReboot(h, "t-1", strings.Repeat("x", 1000), noon()); len(h.Spec.Reboot.Reason) > 256 {
		t.Errorf("recovery's reason has %d bytes", len(h.Spec.Reboot.Reason))
	}
}

func TestOnlyAPersonForcesARebootByHand(t *testing.T) {
	for name, row := range map[string]struct {
		request *infrav1.RebootRequest
		want    bool
	}{
		"none":              {nil, false},
		"a recovery":        {&infrav1.RebootRequest{ID: host.BootstrapRebootID("t-1"), Force: true}, false},
		"a remediation":     {&infrav1.RebootRequest{ID: host.RemediationRebootID("some-uid"), Force: true}, false},
		"by hand":           {&infrav1.RebootRequest{ID: "by-hand"}, false},
		"by hand, by force": {&infrav1.RebootRequest{ID: "by-hand", Force: true}, true},
	} {
		h := pooled(claimed, func(h *host.Host) { h.Spec.Reboot = row.request })
		if got := host.ForcedByHand(h); got != row.want {
			t.Errorf("%s: %t, want %t", name, got, row.want)
		}
	}
}
