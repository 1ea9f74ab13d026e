package show

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// The condition is an hour old in all of these; its reason is younger where it says so.
func TestSinceWhenAReasonIs(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return ptr.To(clitest.Ago(d)) }
	micro := func(d time.Duration) *metav1.MicroTime { return ptr.To(metav1.NewMicroTime(clitest.Ago(d).Time)) }
	bootstrap := func(first *metav1.Time, token string) func(*infrav1.ScalewayAppleSiliconHost, *infrav1.ScalewayAppleSiliconMachine) {
		return func(h *infrav1.ScalewayAppleSiliconHost, _ *infrav1.ScalewayAppleSiliconMachine) {
			h.Spec.Record.Bootstrap = infrav1.BootstrapRecord{ClaimToken: token, FirstFailedAt: first}
		}
	}
	update := func(failures int32, last *metav1.Time) func(*infrav1.ScalewayAppleSiliconHost, *infrav1.ScalewayAppleSiliconMachine) {
		return func(_ *infrav1.ScalewayAppleSiliconHost, m *infrav1.ScalewayAppleSiliconMachine) {
			m.Status.Update = infrav1.UpdateStatus{Failures: failures, LastFailedAt: last}
		}
	}
	const unknown = time.Hour
	for name, c := range map[string]struct {
		kind, reason string
		has          func(*infrav1.ScalewayAppleSiliconHost, *infrav1.ScalewayAppleSiliconMachine)
		want         time.Duration
	}{
		"bootstraps fail":         {infrav1.BootstrappedCondition, infrav1.ReasonBootstrapFailed, bootstrap(at(8*time.Minute), "token"), 8 * time.Minute},
		"SSH does not answer":     {infrav1.BootstrappedCondition, infrav1.ReasonSSHUnreachable, bootstrap(at(8*time.Minute), "token"), 8 * time.Minute},
		"of another claim":        {infrav1.BootstrappedCondition, infrav1.ReasonBootstrapFailed, bootstrap(at(8*time.Minute), "old"), unknown},
		"of an earlier trouble":   {infrav1.BootstrappedCondition, infrav1.ReasonBootstrapFailed, bootstrap(at(2*time.Hour), "token"), unknown},
		"nothing is on record":    {infrav1.BootstrappedCondition, infrav1.ReasonBootstrapFailed, bootstrap(nil, "token"), unknown},
		"a change failed":         {infrav1.UpToDateCondition, infrav1.ReasonUpdateFailed, update(1, at(3*time.Minute)), 3 * time.Minute},
		"a change fails again":    {infrav1.UpToDateCondition, infrav1.ReasonUpdateFailed, update(2, at(3*time.Minute)), unknown},
		"a change waits":          {infrav1.UpToDateCondition, infrav1.ReasonHeld, update(1, at(3*time.Minute)), unknown},
		"a failed one of another": {infrav1.UpToDateCondition, infrav1.ReasonUpdateFailed, update(1, nil), unknown},
	} {
		s := clitest.Fleet()
		s.Machines, s.Hosts, s.Profiles, s.Zones, s.Pods = s.Machines[:1], s.Hosts[:1], nil, nil, nil
		s.Machines[0].Status.Conditions = []metav1.Condition{clitest.Condition(c.kind, metav1.ConditionFalse, c.reason, "", unknown)}
		c.has(&s.Hosts[0], &s.Machines[0])
		waits := StatusOf(s, reasons.Read()).Waits
		if len(waits) != 1 || clitest.Now().Sub(*waits[0].Since) != c.want {
			t.Errorf("%s: %+v, want it since %s", name, waits, c.want)
		}
	}

	h := clitest.Host(1, infrav1.HostWiping)
	h.Spec.Record.Wipe = infrav1.WipeRecord{RequestedAt: micro(5 * time.Minute), StartedAt: micro(4 * time.Minute)}
	for reason, want := range map[string]time.Duration{infrav1.ReasonWipeRequested: 5 * time.Minute, infrav1.ReasonReinstalling: 4 * time.Minute, infrav1.ReasonNotWiped: 0} {
		got := HostBegan(&h, clitest.Condition(infrav1.WipedCondition, metav1.ConditionFalse, reason, "", unknown))
		if (got == nil) != (want == 0) || got != nil && clitest.Now().Sub(*got) != want {
			t.Errorf("%s: since %v, want %s", reason, got, want)
		}
	}
}

// A remediation has one condition, whose reason is the step.
func TestSinceWhenAStepIsTaken(t *testing.T) {
	for reason, want := range map[string]time.Duration{infrav1.ReasonRebooting: 2 * time.Minute, infrav1.ReasonHeld: time.Hour} {
		m := clitest.Machine(1, "Running")
		s := &snapshot.Snapshot{At: clitest.Now(), Machines: []infrav1.ScalewayAppleSiliconMachine{m}, Remediations: []infrav1.ScalewayAppleSiliconRemediation{{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name},
			Status: infrav1.ScalewayAppleSiliconRemediationStatus{
				Step: infrav1.ReasonRebooting, StepStartedAt: ptr.To(metav1.NewMicroTime(clitest.Ago(2 * time.Minute).Time)),
				Conditions: []metav1.Condition{clitest.Condition(infrav1.RemediatedCondition, metav1.ConditionFalse, reason, "", time.Hour)},
			},
		}}}
		status := StatusOf(s, reasons.Read())
		items := slices.Concat(status.Waits, status.Person)
		if len(items) != 1 || clitest.Now().Sub(*items[0].Since) != want {
			t.Errorf("%s: %+v, want it since %s", reason, items, want)
		}
	}
}
