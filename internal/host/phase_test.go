package host_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

func TestPhaseAndConditions(t *testing.T) {
	inSync := condition(infrav1.NameInSyncCondition, metav1.ConditionTrue, "NameInSync")
	staged := condition(host.CredentialsStagedCondition, metav1.ConditionTrue, "Staged")
	for name, row := range map[string]struct {
		host             *host.Host
		seen             host.Observation
		phase            infrav1.HostPhase
		available, wiped string // reasons
	}{
		"in the pool":                {pooled(), host.Observation{}, infrav1.HostAvailable, host.ReasonAvailable, host.ReasonNeverOwned},
		"never seen":                 {pooled(named("")), host.Observation{}, infrav1.HostDiscovered, host.ReasonUnseen, host.ReasonNeverOwned},
		"not delivered":              {pooled(func(h *host.Host) { h.Status.Server.Delivered = false }), host.Observation{}, infrav1.HostDiscovered, infrav1.ReasonNotDelivered, host.ReasonNeverOwned},
		"rebooting":                  {pooled(status(cloud.StatusRebooting)), host.Observation{}, infrav1.HostDiscovered, infrav1.ReasonServerBusy, host.ReasonNeverOwned},
		"a status nobody knows":      {pooled(status("moonwalking")), host.Observation{}, infrav1.HostDiscovered, infrav1.ReasonServerBusy, host.ReasonNeverOwned},
		"deletion is scheduled":      {pooled(scheduled), host.Observation{}, infrav1.HostRetiring, infrav1.ReasonDeletionScheduled, host.ReasonNeverOwned},
		"missing from a list":        {pooled(func(h *host.Host) { h.Status.MissingSince = at(1) }), host.Observation{}, infrav1.HostDiscovered, host.ReasonMissing, host.ReasonNeverOwned},
		"another name":               {pooled(named("apple-silicon-x")), host.Observation{}, infrav1.HostForeign, host.ReasonForeign, host.ReasonNeverOwned},
		"named after a live Machine": {pooled(named("m-1")), host.Observation{Wanted: true}, infrav1.HostDiscovered, host.ReasonForeign, host.ReasonNeverOwned},
		"another cluster's pool":     {pooled(named("theirs-" + serverID)), host.Observation{}, infrav1.HostForeign, host.ReasonForeign, host.ReasonNeverOwned},
		"owned since the last wipe":  {pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(2); h.Spec.Record.Wipe.ObservedAt = at(1) }), host.Observation{}, infrav1.HostDirty, infrav1.ReasonNotWiped, infrav1.ReasonNotWiped},
		"owned and never wiped":      {pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(2) }), host.Observation{}, infrav1.HostDirty, infrav1.ReasonNotWiped, infrav1.ReasonNotWiped},
		"wiped at the very claim":    {pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(2); h.Spec.Record.Wipe.ObservedAt = at(2) }), host.Observation{}, infrav1.HostDirty, infrav1.ReasonNotWiped, infrav1.ReasonNotWiped},
		"a wipe without an end":      {pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequestedAt = at(2) }), host.Observation{}, infrav1.HostDirty, infrav1.ReasonNotWiped, infrav1.ReasonWipeRequested},
		"wiped after the claim":      {pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(1); h.Spec.Record.Wipe.ObservedAt = at(2) }), host.Observation{}, infrav1.HostAvailable, host.ReasonAvailable, host.ReasonObserved},
		"claimed":                    {pooled(claimed), host.Observation{}, infrav1.HostClaimed, host.ReasonClaimed, infrav1.ReasonNotWiped},
		"claimed, no credentials":    {pooled(claimed, inSync), host.Observation{}, infrav1.HostClaimed, host.ReasonClaimed, infrav1.ReasonNotWiped},
		"in use":                     {pooled(claimed, inSync, staged), host.Observation{}, infrav1.HostInUse, host.ReasonClaimed, infrav1.ReasonNotWiped},
		"its owner is gone":          {pooled(claimed, inSync, staged), host.Observation{OwnerGone: true}, infrav1.HostStranded, host.ReasonStranded, infrav1.ReasonNotWiped},
		"released":                   {pooled(released, inSync, staged), host.Observation{OwnerGone: true}, infrav1.HostReleasing, host.ReasonWiping, infrav1.ReasonNotWiped},
		"wiping":                     {pooled(wiping), host.Observation{}, infrav1.HostWiping, host.ReasonWiping, infrav1.ReasonReinstalling},
		"its reinstall failed":       {pooled(wiping, status(cloud.StatusError)), host.Observation{}, infrav1.HostWiping, host.ReasonWiping, infrav1.ReasonReinstallFailed},
		"in error before the wipe":   {pooled(released, status(cloud.StatusError)), host.Observation{}, infrav1.HostReleasing, host.ReasonWiping, infrav1.ReasonNotWiped},
		"in the pool, but a Machine": {pooled(), host.Observation{Wanted: true}, infrav1.HostDiscovered, host.ReasonWanted, host.ReasonNeverOwned},
		"no longer a Machine":        {pooled(condition(infrav1.AvailableCondition, metav1.ConditionFalse, host.ReasonWanted)), host.Observation{}, infrav1.HostAvailable, host.ReasonAvailable, host.ReasonNeverOwned},
		"an order":                   {pooled(ordering), host.Observation{}, infrav1.HostOrdering, infrav1.ReasonOrdering, infrav1.ReasonNotWiped},
		"an order that is let go":    {pooled(ordering, released), host.Observation{}, infrav1.HostReleasing, host.ReasonWiping, infrav1.ReasonNotWiped},
		"released to Terminate":      {pooled(terminated), host.Observation{}, infrav1.HostReleasing, infrav1.ReasonRetiring, infrav1.ReasonNotWiped},
		"terminated, wiping":         {pooled(wiping, terminated), host.Observation{}, infrav1.HostWiping, infrav1.ReasonRetiring, infrav1.ReasonReinstalling},
		"terminated, at its floor":   {pooled(wiping, terminated, scheduled), host.Observation{}, infrav1.HostRetiring, infrav1.ReasonRetiring, infrav1.ReasonReinstalling},
		"terminated, not given back": {pooled(wiping, terminated, func(h *host.Host) { h.Spec.Record.Wipe.ObservedAt = at(9) }), host.Observation{}, infrav1.HostRetiring, infrav1.ReasonRetiring, host.ReasonObserved},
		"terminated, wiped before":   {pooled(terminated, func(h *host.Host) { h.Spec.Record.Wipe.ObservedAt = at(-9) }), host.Observation{}, infrav1.HostReleasing, infrav1.ReasonRetiring, infrav1.ReasonNotWiped},
		"recycled, but scheduled":    {pooled(wiping, scheduled), host.Observation{}, infrav1.HostWiping, host.ReasonWiping, infrav1.ReasonReinstalling},
		"claimed, but scheduled":     {pooled(claimed, scheduled, inSync, staged), host.Observation{}, infrav1.HostInUse, host.ReasonClaimed, infrav1.ReasonNotWiped},
		"timed out once":             {pooled(wiping, repeats(1)), host.Observation{}, infrav1.HostWiping, host.ReasonWiping, infrav1.ReasonReinstalling},
		"failed twice":               {pooled(wiping, repeats(2), failedTwice), host.Observation{}, infrav1.HostQuarantined, infrav1.ReasonQuarantined, infrav1.ReasonReinstallFailed},
		"failed twice, ready now":    {pooled(wiping, repeats(2), failedTwice, status(cloud.StatusReady)), host.Observation{}, infrav1.HostQuarantined, infrav1.ReasonQuarantined, infrav1.ReasonReinstallFailed},
		"failed twice, set free":     {pooled(wiping, repeats(2), status(cloud.StatusError)), host.Observation{}, infrav1.HostWiping, host.ReasonWiping, infrav1.ReasonReinstallFailed},
		"timed out twice, fails now": {pooled(wiping, repeats(2), failedTwice, timedOutTwice), host.Observation{}, infrav1.HostQuarantined, infrav1.ReasonQuarantined, infrav1.ReasonWipeTimedOut},
		"timed out twice":            {pooled(wiping, repeats(2), quarantined(0)), host.Observation{}, infrav1.HostQuarantined, infrav1.ReasonQuarantined, infrav1.ReasonWipeTimedOut},
		"that quarantine taken off":  {pooled(wiping, repeats(2)), host.Observation{}, infrav1.HostWiping, host.ReasonWiping, infrav1.ReasonReinstalling},
		"a wipe that is refused":     {pooled(released), host.Observation{WipeRejected: true, Refusal: "no"}, infrav1.HostReleasing, host.ReasonWiping, infrav1.ReasonWipeRejected},
		"handed over":                {pooled(claimed, inSync, staged, handedOver), host.Observation{OwnerGone: true}, infrav1.HostHandedOver, infrav1.ReasonHandedOver, infrav1.ReasonNotWiped},
		"handed over and released":   {pooled(released, handedOver), host.Observation{}, infrav1.HostReleasing, host.ReasonWiping, infrav1.ReasonNotWiped},
		"quarantined":                {pooled(quarantined(0)), host.Observation{}, infrav1.HostQuarantined, infrav1.ReasonQuarantined, host.ReasonNeverOwned},
		"quarantined for a while":    {pooled(quarantined(5)), host.Observation{Now: at(4).Time}, infrav1.HostQuarantined, infrav1.ReasonQuarantined, host.ReasonNeverOwned},
		"quarantined, time is over":  {pooled(quarantined(5)), host.Observation{Now: at(5).Time}, infrav1.HostAvailable, host.ReasonAvailable, host.ReasonNeverOwned},
		"quarantined and not wiped":  {pooled(dirtied, quarantined(0)), host.Observation{}, infrav1.HostQuarantined, infrav1.ReasonQuarantined, infrav1.ReasonNotWiped},
		"over, and still not wiped":  {pooled(dirtied, quarantined(5)), host.Observation{Now: at(9).Time}, infrav1.HostDirty, infrav1.ReasonNotWiped, infrav1.ReasonNotWiped},
		"quarantined in use":         {pooled(claimed, inSync, staged, quarantined(0)), host.Observation{}, infrav1.HostInUse, host.ReasonClaimed, infrav1.ReasonNotWiped},
		"in maintenance":             {pooled(maintained), host.Observation{}, infrav1.HostMaintenance, infrav1.ReasonMaintenance, host.ReasonNeverOwned},
		"maintenance and quarantine": {pooled(maintained, quarantined(0)), host.Observation{}, infrav1.HostMaintenance, infrav1.ReasonMaintenance, host.ReasonNeverOwned},
		"maintained while rebooting": {pooled(maintained, status(cloud.StatusRebooting)), host.Observation{}, infrav1.HostMaintenance, infrav1.ReasonMaintenance, host.ReasonNeverOwned},
		"maintained in use":          {pooled(claimed, inSync, staged, maintained), host.Observation{}, infrav1.HostInUse, host.ReasonClaimed, infrav1.ReasonNotWiped},
		"maintained and released":    {pooled(released, maintained), host.Observation{}, infrav1.HostReleasing, host.ReasonWiping, infrav1.ReasonNotWiped},
		"being adopted":              {pooled(adopted), host.Observation{}, infrav1.HostDiscovered, host.ReasonAdopting, host.ReasonNeverOwned},
		"foreign, being adopted":     {pooled(named("x"), adopted), host.Observation{}, infrav1.HostForeign, host.ReasonForeign, host.ReasonNeverOwned},
		"gone":                       {pooled(claimed), host.Observation{Gone: true}, infrav1.HostGone, host.ReasonGone, infrav1.ReasonNotWiped},
	} {
		t.Run(name, func(t *testing.T) {
			row.seen.PoolPrefixes = []string{"", prefix}
			row.host.Status.Phase = infrav1.HostGone // the stored phase must not matter
			if row.phase == infrav1.HostGone {
				row.host.Status.Phase = infrav1.HostAvailable
			}
			if got := host.Phase(row.host, row.seen); got != row.phase {
				t.Errorf("phase %s, want %s", got, row.phase)
			}
			conditions := host.Conditions(row.host, row.seen)
			for kind, want := range map[string]string{infrav1.AvailableCondition: row.available, infrav1.WipedCondition: row.wiped} {
				if c := meta.FindStatusCondition(conditions, kind); c == nil || c.Reason != want {
					t.Errorf("%s is %+v, want reason %s", kind, c, want)
				}
			}
			isTrue := meta.IsStatusConditionTrue(conditions, infrav1.AvailableCondition)
			if isTrue != (row.phase == infrav1.HostAvailable) {
				t.Errorf("condition Available is %v in phase %s", isTrue, row.phase)
			}
		})
	}
}

func TestOnlyTheVendorsDateIsShown(t *testing.T) {
	floor := metav1.NewTime(noon().Add(24 * time.Hour))
	h := pooled(terminated, scheduled, func(h *host.Host) { h.Status.Server.DeletableAt = &floor })
	for _, kind := range []string{infrav1.AvailableCondition, host.RetiredCondition} {
		c := meta.FindStatusCondition(host.Conditions(h, host.Observation{}), kind)
		if c == nil || !strings.Contains(c.Message, "2026-11-21T12:00:00Z") {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	if c := meta.FindStatusCondition(host.Conditions(pooled(released), host.Observation{}), host.RetiredCondition); c != nil {
		t.Errorf("a recycled host retires: %+v", c)
	}
}

// Nobody is promised a wipe of what the vendor gets back as it is.
func TestARetiredHostMayBeGivenBackUnwiped(t *testing.T) {
	c := meta.FindStatusCondition(host.Conditions(pooled(terminated), host.Observation{}), host.RetiredCondition)
	if c == nil || !strings.Contains(c.Message, "where that is refused or late it is given back as it is") {
		t.Errorf("Retired is %+v", c)
	}
}

// The vendor refused the reinstall and took the deletion: it refuses no more than the wipe.
func TestTheRefusalOfAWipeIsOfTheWipeAlone(t *testing.T) {
	h := pooled(terminated)
	h.Status.Server.DeletionScheduled = true
	for _, c := range host.Conditions(h, host.Observation{WipeRejected: true, Refusal: "no"}) {
		if is := strings.Contains(c.Message, "the vendor refuses"); is != (c.Type == infrav1.WipedCondition) {
			t.Errorf("%s: %s", c.Type, c.Message)
		}
	}
}

func TestEveryPhaseHasARowAndItsWords(t *testing.T) {
	rows := map[infrav1.HostPhase]bool{}
	for _, rule := range host.Phases() {
		rows[rule.Phase] = true
		if rule.When == "" || rule.Meaning == "" || rule.Next == "" {
			t.Errorf("a row of %s has no words", rule.Phase)
		}
	}
	for _, phase := range []infrav1.HostPhase{
		infrav1.HostOrdering, infrav1.HostDiscovered, infrav1.HostAvailable, infrav1.HostClaimed, infrav1.HostInUse, infrav1.HostReleasing,
		infrav1.HostWiping, infrav1.HostRetiring, infrav1.HostQuarantined, infrav1.HostMaintenance, infrav1.HostHandedOver,
		infrav1.HostStranded, infrav1.HostForeign, infrav1.HostDirty, infrav1.HostGone,
	} {
		if !rows[phase] {
			t.Errorf("no row of %s", phase)
		}
	}
}

func TestOnlyAvailableHostsAreAvailable(t *testing.T) {
	h := pooled(func(h *host.Host) { now := metav1.NewTime(noon()); h.DeletionTimestamp = &now })
	if got := host.Unavailable(h, prefix); got != host.SkipRemoved {
		t.Errorf("a host that is being removed: %q", got)
	}
}

func scheduled(h *host.Host) { h.Status.Server.DeletionScheduled = true }

func terminated(h *host.Host) {
	if h.Spec.Release == nil {
		released(h)
	}
	h.Spec.Release.Policy, h.Spec.Release.PoolPrefix = infrav1.Terminate, ""
}

func repeats(n int32) func(*host.Host) {
	return func(h *host.Host) { h.Spec.Record.Wipe.Repeats = n }
}

func ordering(h *host.Host) {
	claimed(h)
	h.Status.Server, h.Spec.ServerID = infrav1.ServerStatus{}, ""
	h.Spec.Order = &infrav1.OrderRequest{Name: "m-1", Type: "M2-L", Zone: zone}
}

// quarantined until so many minutes after noon; 0: until a person ends it.
func quarantined(minutes int) func(*host.Host) {
	return func(h *host.Host) {
		h.Spec.Quarantine = &infrav1.Quarantine{Reason: "disk errors"}
		if minutes > 0 {
			until := metav1.NewTime(at(minutes).Time)
			h.Spec.Quarantine.Until = &until
		}
	}
}

func maintained(h *host.Host) { h.Spec.Maintenance = &infrav1.Maintenance{Reason: "new disk"} }
func handedOver(h *host.Host) { h.Spec.Record.HandedOverAt = at(3) }
func dirtied(h *host.Host)    { h.Spec.Record.Wipe.RequiredSince = at(0) }
func adopted(h *host.Host)    { h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: prefix} }

func failedTwice(h *host.Host) {
	status(cloud.StatusError)(h)
	h.Spec.Quarantine = &infrav1.Quarantine{Reason: infrav1.ReasonReinstallFailed}
}

func timedOutTwice(h *host.Host) { h.Spec.Quarantine.Reason = infrav1.ReasonWipeTimedOut }

// A reinstall that failed once is asked for again by itself, and nobody needs to look.
func TestOneFailedReinstallIsNotTwo(t *testing.T) {
	for repeated, twice := range []bool{false, false, true} {
		h := pooled(wiping, repeats(int32(repeated)), status(cloud.StatusError))
		c := meta.FindStatusCondition(host.Conditions(h, host.Observation{}), infrav1.WipedCondition)
		if c == nil || c.Reason != infrav1.ReasonReinstallFailed || strings.Contains(c.Message, "twice") != twice {
			t.Errorf("asked for %d times: %+v", repeated+1, c)
		}
	}
}

// A person sees that a host is kept out of the pool also while a Machine has it.
func TestKeptOut(t *testing.T) {
	until := metav1.NewTime(noon().Add(time.Hour))
	maintained := func(h *host.Host) { h.Spec.Maintenance = &infrav1.Maintenance{Reason: "new fan"} }
	for name, row := range map[string]struct {
		host   *host.Host
		reason string
		says   []string
		silent string // what the message does not say
	}{
		"neither":             {host: pooled(claimed)},
		"maintenance, in use": {pooled(claimed, maintained), infrav1.ReasonMaintenance, []string{"new fan", "leave it alone", "Machine m-1 keeps it"}, "quarantine"},
		"quarantine, in use": {
			pooled(claimed, func(h *host.Host) { h.Spec.Quarantine = &infrav1.Quarantine{Reason: "noisy", Until: &until} }), infrav1.ReasonQuarantined,
			[]string{"noisy", until.UTC().Format(time.RFC3339), "Machine m-1 keeps it"},
			"maintenance",
		},
		"both":                 {pooled(maintained, quarantined(0)), infrav1.ReasonMaintenance, []string{"new fan", "quarantined"}, "keeps"},
		"its owner gave it up": {pooled(released, quarantined(0)), infrav1.ReasonQuarantined, []string{"disk errors"}, "keeps"},
		"a quarantine's over":  {host: pooled(claimed, func(h *host.Host) { h.Spec.Quarantine = &infrav1.Quarantine{Until: &metav1.Time{Time: noon()}} })},
	} {
		got := meta.FindStatusCondition(host.Conditions(row.host, host.Observation{Now: noon()}), infrav1.KeptOutCondition)
		if (got == nil) != (row.reason == "") || got != nil && (got.Reason != row.reason || got.Status != metav1.ConditionTrue) {
			t.Errorf("%s: %+v, want %q", name, got, row.reason)
			continue
		}
		for _, part := range row.says {
			if !strings.Contains(got.Message, part) {
				t.Errorf("%s: %q does not say %q", name, got.Message, part)
			}
		}
		if row.silent != "" && strings.Contains(got.Message, row.silent) {
			t.Errorf("%s: %q says %q", name, got.Message, row.silent)
		}
	}
}
