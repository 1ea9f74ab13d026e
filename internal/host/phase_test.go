package host_test

import (
	"testing"

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
		seen             host.Seen
		phase            infrav1.HostPhase
		available, wiped string // reasons
	}{
		"in the pool":                {pooled(), host.Seen{}, infrav1.HostAvailable, host.ReasonAvailable, host.ReasonNeverOwned},
		"never seen":                 {pooled(named("")), host.Seen{}, infrav1.HostDiscovered, host.ReasonUnseen, host.ReasonNeverOwned},
		"not delivered":              {pooled(func(h *host.Host) { h.Status.Server.Delivered = false }), host.Seen{}, infrav1.HostDiscovered, infrav1.ReasonNotDelivered, host.ReasonNeverOwned},
		"rebooting":                  {pooled(status(cloud.StatusRebooting)), host.Seen{}, infrav1.HostDiscovered, infrav1.ReasonServerBusy, host.ReasonNeverOwned},
		"a status nobody knows":      {pooled(status("moonwalking")), host.Seen{}, infrav1.HostDiscovered, infrav1.ReasonServerBusy, host.ReasonNeverOwned},
		"deletion is scheduled":      {pooled(func(h *host.Host) { h.Status.Server.DeletionScheduled = true }), host.Seen{}, infrav1.HostDiscovered, infrav1.ReasonDeletionScheduled, host.ReasonNeverOwned},
		"missing from a list":        {pooled(func(h *host.Host) { h.Status.MissingSince = at(1) }), host.Seen{}, infrav1.HostDiscovered, host.ReasonMissing, host.ReasonNeverOwned},
		"another name":               {pooled(named("apple-silicon-x")), host.Seen{}, infrav1.HostForeign, host.ReasonForeign, host.ReasonNeverOwned},
		"named after a live Machine": {pooled(named("m-1")), host.Seen{Wanted: true}, infrav1.HostDiscovered, host.ReasonForeign, host.ReasonNeverOwned},
		"our name, another prefix":   {pooled(named("old-" + serverID)), host.Seen{}, infrav1.HostAvailable, host.ReasonAvailable, host.ReasonNeverOwned},
		"owned since the last wipe":  {pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(2); h.Spec.Record.Wipe.ObservedAt = at(1) }), host.Seen{}, infrav1.HostDirty, infrav1.ReasonNotWiped, infrav1.ReasonNotWiped},
		"owned and never wiped":      {pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(2) }), host.Seen{}, infrav1.HostDirty, infrav1.ReasonNotWiped, infrav1.ReasonNotWiped},
		"wiped at the very claim":    {pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(2); h.Spec.Record.Wipe.ObservedAt = at(2) }), host.Seen{}, infrav1.HostDirty, infrav1.ReasonNotWiped, infrav1.ReasonNotWiped},
		"a wipe without an end":      {pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequestedAt = at(2) }), host.Seen{}, infrav1.HostDirty, infrav1.ReasonNotWiped, infrav1.ReasonWipeRequested},
		"wiped after the claim":      {pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(1); h.Spec.Record.Wipe.ObservedAt = at(2) }), host.Seen{}, infrav1.HostAvailable, host.ReasonAvailable, host.ReasonObserved},
		"claimed":                    {pooled(claimed), host.Seen{}, infrav1.HostClaimed, host.ReasonClaimed, infrav1.ReasonNotWiped},
		"claimed, no credentials":    {pooled(claimed, inSync), host.Seen{}, infrav1.HostClaimed, host.ReasonClaimed, infrav1.ReasonNotWiped},
		"in use":                     {pooled(claimed, inSync, staged), host.Seen{}, infrav1.HostInUse, host.ReasonClaimed, infrav1.ReasonNotWiped},
		"its owner is gone":          {pooled(claimed, inSync, staged), host.Seen{OwnerGone: true}, infrav1.HostStranded, host.ReasonStranded, infrav1.ReasonNotWiped},
		"released":                   {pooled(released, inSync, staged), host.Seen{OwnerGone: true}, infrav1.HostReleasing, host.ReasonWiping, infrav1.ReasonNotWiped},
		"wiping":                     {pooled(wiping), host.Seen{}, infrav1.HostWiping, host.ReasonWiping, infrav1.ReasonReinstalling},
		"its reinstall failed":       {pooled(wiping, status(cloud.StatusError)), host.Seen{}, infrav1.HostWiping, host.ReasonWiping, infrav1.ReasonReinstallFailed},
		"in error before the wipe":   {pooled(released, status(cloud.StatusError)), host.Seen{}, infrav1.HostReleasing, host.ReasonWiping, infrav1.ReasonNotWiped},
		"in the pool, but a Machine": {pooled(), host.Seen{Wanted: true}, infrav1.HostDiscovered, host.ReasonWanted, host.ReasonNeverOwned},
		"no longer a Machine":        {pooled(condition(infrav1.AvailableCondition, metav1.ConditionFalse, host.ReasonWanted)), host.Seen{}, infrav1.HostAvailable, host.ReasonAvailable, host.ReasonNeverOwned},
		"gone":                       {pooled(claimed), host.Seen{Gone: true}, infrav1.HostGone, host.ReasonGone, infrav1.ReasonNotWiped},
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

func TestOnlyAvailableHostsAreAvailable(t *testing.T) {
	h := pooled(func(h *host.Host) { now := metav1.NewTime(noon()); h.DeletionTimestamp = &now })
	if got := host.Unavailable(h, prefix); got != host.SkipRemoved {
		t.Errorf("a host that is being removed: %q", got)
	}
}
