package host

import (
	"time"

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

// Observation is what is known about a host beside its own object.
type Observation struct {
	// Gone: it is proved that the vendor no longer has the server.
	Gone bool
	// OwnerGone: an uncached read found no Machine that holds the host's claim.
	OwnerGone bool
	// Wanted: nobody has claimed the host, but a live Machine's hostRef names it,
	// and the server is not in the pool or bears exactly this Machine's name.
	Wanted bool
	// RefuseUnseen: hosts that were never seen wiped are wiped before they are used.
	RefuseUnseen bool
	// UnseenWaits is what keeps that wipe from being begun; empty: nothing.
	UnseenWaits string
	// Refusal is what the vendor last refused in this look, and why; empty: nothing.
	Refusal string
	// WipeRejected: what it refused was the reinstall, and not for a while only.
	WipeRejected bool
	// PoolPrefixes are the pools known here.
	PoolPrefixes []string
	// Now ends quarantines; zero: it ends none.
	Now time.Time
}

// PhaseRule is a row of the phase table.
type PhaseRule struct {
	Phase infrav1.HostPhase
	// When is the rule in words that complete "the host …".
	When string
	// Meaning of the phase in one line.
	Meaning string
	// Next says what moves the host on.
	Next string

	holds func(*Host, Observation) bool
}

// Phases is the table that Phase reads: the first row that holds decides. A row
// may trust that none before it holds.
func Phases() []PhaseRule {
	return append(ownedPhases(), idlePhases()...)
}

// ownedPhases are those of hosts that are ordered, gone, released or claimed.
func ownedPhases() []PhaseRule {
	return []PhaseRule{
		{
			infrav1.HostOrdering, "is an order without a release", "a server is being ordered", "the server exists: it gets a Host of its own",
			func(h *Host, _ Observation) bool { return h.Spec.Order != nil && h.Spec.Release == nil },
		},
		{
			infrav1.HostGone, "is proved to be gone at the vendor", "the vendor no longer has the server", "its Machine goes: the Host is removed",
			func(_ *Host, s Observation) bool { return s.Gone },
		},
		{
			infrav1.HostRetiring, "is released to Terminate, and its deletion is scheduled", "given back to the vendor, billed until its floor", "the vendor deletes the server: the Host is removed",
			func(h *Host, _ Observation) bool { return terminating(h) && h.Status.Server.DeletionScheduled },
		},
		{
			infrav1.HostRetiring, "is released to Terminate, and its wipe was observed", "wiped, and not given back yet: the condition Retired says what the vendor refuses", "the vendor takes the server back",
			func(h *Host, _ Observation) bool {
				return terminating(h) && h.Spec.Record.Wipe.RequestedAt != nil && h.Spec.Record.Wipe.ObservedAt != nil
			},
		},
		{
			infrav1.HostQuarantined, "is released, and its wipe failed or timed out twice", "the wipe does not end well; somebody should look", "the wipe ends after all, or a person removes the quarantine: it is asked for again",
			func(h *Host, s Observation) bool { return WipeAbandoned(h, s.Now) },
		},
		{
			infrav1.HostReleasing, "is released, and its wipe was not seen to start", "let go, the wipe is asked for", "the vendor shows the reinstall",
			func(h *Host, _ Observation) bool { return h.Spec.Release != nil && h.Spec.Record.Wipe.StartedAt == nil },
		},
		{
			infrav1.HostWiping, "is released", "being wiped, or not yet under its pool name again", "the wipe was observed and the name reads back",
			func(h *Host, _ Observation) bool { return h.Spec.Release != nil },
		},
		{
			infrav1.HostHandedOver, "was moved away with its Machine", "another management cluster's; nothing is done to it", "the Machine comes back, or a person ends the claim here",
			func(h *Host, _ Observation) bool { return h.Spec.Record.HandedOverAt != nil },
		},
		{
			infrav1.HostStranded, "is claimed, and no Machine holds the claim", "its Machine vanished without releasing it", "the Machine comes back, the sweep reclaims it, or a person records a release",
			func(h *Host, s Observation) bool { return h.Spec.ClaimRef != nil && s.OwnerGone },
		},
		{
			infrav1.HostInUse, "is claimed, bears its owner's name, and its credentials are staged", "a Machine's; it may be touched over SSH", "the Machine is deleted, or gives the host up",
			func(h *Host, _ Observation) bool { return h.Spec.ClaimRef != nil && settled(h) },
		},
		{
			infrav1.HostClaimed, "is claimed", "a Machine's; name or credentials are not settled yet", "the name stayed and the credentials are staged",
			func(h *Host, _ Observation) bool { return h.Spec.ClaimRef != nil },
		},
	}
}

// idlePhases are those of hosts that nobody has.
func idlePhases() []PhaseRule {
	return []PhaseRule{
		{
			infrav1.HostDiscovered, "was never read, or a live Machine is about to take it", "not known well enough yet", "it is read, or claimed",
			func(h *Host, s Observation) bool { return h.Status.Server.Name == "" || s.Wanted },
		},
		{
			infrav1.HostRetiring, "is scheduled for deletion", "given back to the vendor, billed until its floor", "the vendor deletes the server, or a person cancels that at the vendor",
			func(h *Host, _ Observation) bool { return h.Status.Server.DeletionScheduled },
		},
		{
			infrav1.HostMaintenance, "is in maintenance", "kept out of everything by a person", "the person removes spec.maintenance",
			func(h *Host, _ Observation) bool { return h.Spec.Maintenance != nil },
		},
		{
			infrav1.HostQuarantined, "is quarantined", "kept out of the pool for a while", "the quarantine's time is over, or a person removes it",
			func(h *Host, s Observation) bool { return Quarantined(h, s.Now) },
		},
		{
			infrav1.HostDiscovered, "is missing from a list, not delivered, or busy", "seen, but not fit for use yet", "the vendor shows it ready and delivered",
			func(h *Host, _ Observation) bool { return unseenOrBusy(h) },
		},
		{
			infrav1.HostForeign, "bears a name that is not the pool's", "somebody else's, or being prepared", "it is named into the pool, or adopted",
			func(h *Host, s Observation) bool {
				return !InPool(h.Status.Server.Name, h.Spec.ServerID, s.PoolPrefixes...)
			},
		},
		{
			infrav1.HostDirty, "was owned, or is of an unknown past that is not trusted, and no wipe was observed since", "in the pool by its name alone; nobody can claim it", "a reinstall is seen from beginning to end, or it is adopted",
			func(h *Host, s Observation) bool { return !Clean(h) || s.RefuseUnseen && neverSeenWiped(h) },
		},
		{
			infrav1.HostAvailable, "is clean, ready, and named as the pool's", "free", "a Machine claims it",
			func(h *Host, s Observation) bool { return unavailable(h, s.Now, s.PoolPrefixes...) == "" },
		},
		{
			infrav1.HostDiscovered, "is none of these, as one that is being removed or adopted", "not fit for use yet", "that ends",
			func(*Host, Observation) bool { return true },
		},
	}
}

// Phase is one word for what the host is doing: a function of its spec and the
// last observation, never of the phase it had.
func Phase(h *Host, seen Observation) infrav1.HostPhase {
	for _, rule := range Phases() {
		if rule.holds(h, seen) {
			return rule.Phase
		}
	}
	return infrav1.HostDiscovered
}

// RuleOf is the row that gave a host the phase in its status, as far as that can be told
// without the observation: of several with this phase, the first that holds.
func RuleOf(h *Host, now time.Time) (PhaseRule, bool) {
	seen := Observation{Now: now, Gone: h.Status.Phase == infrav1.HostGone, OwnerGone: h.Status.Phase == infrav1.HostStranded}
	var first PhaseRule
	for _, rule := range Phases() {
		if rule.Phase != h.Status.Phase {
			continue
		}
		if rule.holds(h, seen) {
			return rule, true
		}
		if first.Phase == "" {
			first = rule
		}
	}
	return first, first.Phase != ""
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

func terminating(h *Host) bool {
	return h.Spec.Release != nil && h.Spec.Release.Policy == infrav1.Terminate
}

// Quarantined reports that a quarantine keeps the host out of the pool. One whose
// time is over is none; at the zero time none is over.
func Quarantined(h *Host, now time.Time) bool {
	q := h.Spec.Quarantine
	return q != nil && (q.Until == nil || now.Before(q.Until.Time))
}
