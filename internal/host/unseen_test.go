package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func TestNeverSeenWiped(t *testing.T) {
	at := metav1.NewMicroTime(time.Now())
	for name, c := range map[string]struct {
		change func(*Host)
		want   bool
	}{
		"named by the first system":  {func(h *Host) { h.Status.Server.Name = "tuist-pool-4a6d3e4e-0000-4000-8000-000000000000" }, true},
		"named by a person":          {func(h *Host) { h.Status.Server.Name = "tuist-pool-1" }, true},
		"named by a release of ours": {func(h *Host) { h.Status.Server.Name = "tuist-pool-" + legacyID }, false},
		"claimed once":               {func(h *Host) { h.Spec.Record.Wipe.RequiredSince = &at }, false},
		"wiped once":                 {func(h *Host) { h.Spec.Record.Wipe.ObservedAt = &at }, false},
		"being wiped":                {func(h *Host) { h.Spec.Record.Wipe.RequestedAt = &at }, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := legacyHost()
			h.Status.Server.Name = "tuist-pool-1"
			c.change(h)
			if got := neverSeenWiped(h); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestWhichUnknownPastIsWiped(t *testing.T) {
	seen := Observation{RefuseUnseen: true, PoolPrefixes: []string{"tuist-pool-"}, Now: time.Now()}
	for name, c := range map[string]struct {
		change func(*Host, *Observation)
		want   bool
	}{
		"free":                    {func(*Host, *Observation) {}, true},
		"trusted":                 {func(_ *Host, s *Observation) { s.RefuseUnseen = false }, false},
		"about to be a Machine's": {func(_ *Host, s *Observation) { s.Wanted = true }, false},
		"claimed":                 {func(h *Host, _ *Observation) { h.Spec.ClaimRef = &infrav1.ClaimReference{Token: "t"} }, false},
		"of no pool":              {func(h *Host, _ *Observation) { h.Status.Server.Name = "other" }, false},
		"seen wiped":              {func(h *Host, _ *Observation) { h.Status.Server.Name = "tuist-pool-" + legacyID }, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, s := legacyHost(), seen
			h.Status.Server.Name = "tuist-pool-1"
			c.change(h, &s)
			if got := MustWipeUnseen(h, s); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestNoMachineTakesAHostThatWasNeverSeenWiped(t *testing.T) {
	h := legacyHost()
	h.Status.Server.Name = "tuist-pool-1"
	wish := Requirements{Namespace: "a", Name: "b", Zone: legacyZone, PoolPrefix: "tuist-pool-", RefuseUnseen: true, Now: time.Now()}
	if chosen, skipped := Choose(wish, []Host{*h}); chosen != nil || !skipped.Only(SkipNeverWiped) {
		t.Errorf("chosen %v, skipped %v", chosen, skipped)
	}
	// Also where the intent was there before, by what the host itself says.
	h.Status.Conditions = []metav1.Condition{{Type: infrav1.AvailableCondition, Status: metav1.ConditionFalse, Reason: ReasonNeverSeenWiped}}
	if got := Unavailable(h, "tuist-pool-"); got != SkipNeverWiped {
		t.Errorf("unavailable: %q", got)
	}
	wish.RefuseUnseen = false
	h.Status.Conditions = nil
	if chosen, _ := Choose(wish, []Host{*h}); chosen == nil {
		t.Error("a trusting manager does not take it either")
	}
}
