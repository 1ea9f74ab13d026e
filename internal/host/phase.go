package host

import (
	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// CredentialsStagedCondition of a host: the owner's Secret holds the credentials
// that a GET showed. False: the vendor seals them.
const (
	CredentialsStagedCondition = "CredentialsStaged"
	ReasonStaged               = "Staged"
)

// Seen is what is known about a host beside its own object.
type Seen struct {
	// Gone: it is proved that the vendor no longer has the server.
	Gone bool
	// OwnerGone: an uncached read found no Machine that holds the host's claim.
	OwnerGone bool
	// Wanted: nobody has claimed the host, but a live Machine's hostRef names it,
	// and the server is not in the pool or bears exactly this Machine's name.
	Wanted bool
	// Refusal is what the vendor last refused in this look, and why; empty: nothing.
	Refusal string
	// PoolPrefixes are the pools known here.
	PoolPrefixes []string
}

// phaseRule is a row of the phase table. The first row that holds decides.
type phaseRule struct {
	phase infrav1.HostPhase
	holds func(*Host, Seen) bool
}

func phaseTable() []phaseRule {
	return []phaseRule{
		{infrav1.HostGone, func(_ *Host, s Seen) bool { return s.Gone }},
		{infrav1.HostReleasing, func(h *Host, _ Seen) bool { return h.Spec.Release != nil && h.Spec.Record.Wipe.StartedAt == nil }},
		{infrav1.HostWiping, func(h *Host, _ Seen) bool { return h.Spec.Release != nil }},
		{infrav1.HostStranded, func(h *Host, s Seen) bool { return h.Spec.ClaimRef != nil && s.OwnerGone }},
		{infrav1.HostInUse, func(h *Host, _ Seen) bool { return h.Spec.ClaimRef != nil && settled(h) }},
		{infrav1.HostClaimed, func(h *Host, _ Seen) bool { return h.Spec.ClaimRef != nil }},
		{infrav1.HostDiscovered, func(h *Host, s Seen) bool { return h.Status.Server.Name == "" || s.Wanted }},
		{infrav1.HostDiscovered, func(h *Host, _ Seen) bool { return unseenOrBusy(h) }},
		{infrav1.HostForeign, func(h *Host, s Seen) bool {
			return !InPool(h.Status.Server.Name, h.Spec.ServerID, s.PoolPrefixes...)
		}},
		{infrav1.HostDirty, func(h *Host, _ Seen) bool { return !Clean(h) }},
		{infrav1.HostAvailable, func(h *Host, s Seen) bool { return unavailable(h, s.PoolPrefixes...) == "" }},
	}
}

// Phase is one word for what the host is doing: a function of its spec and the
// last observation, never of the phase it had.
func Phase(h *Host, seen Seen) infrav1.HostPhase {
	for _, rule := range phaseTable() {
		if rule.holds(h, seen) {
			return rule.phase
		}
	}
	return infrav1.HostDiscovered
}

// settled: the owner's name and its credentials are where they should be.
func settled(h *Host) bool {
	return meta.IsStatusConditionTrue(h.Status.Conditions, infrav1.NameInSyncCondition) &&
		meta.IsStatusConditionTrue(h.Status.Conditions, CredentialsStagedCondition)
}

func unseenOrBusy(h *Host) bool {
	server := h.Status.Server
	return h.Status.MissingSince != nil || !server.Delivered || server.Status != string(cloud.StatusReady)
}
