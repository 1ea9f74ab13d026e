package host

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// Reasons of the host's conditions that are only used here.
const (
	ReasonAvailable  = "Available"
	ReasonClaimed    = "Claimed"
	ReasonWiping     = "Wiping"
	ReasonForeign    = "Foreign"
	ReasonStranded   = "Stranded"
	ReasonGone       = "Gone"
	ReasonMissing    = "Missing"
	ReasonRemoved    = "BeingRemoved"
	ReasonUnseen     = "NotSeen"
	ReasonWanted     = "NamedAfterMachine"
	ReasonNeverOwned = "NeverOwned"
	ReasonObserved   = "WipeObserved"
	ReasonAdopting   = "Adopting"
	ReasonTrusted    = "DiskTrusted"
)

// RetiredCondition of a host that is given back to the vendor: False with how far
// that is. There is no True: the Host goes with its server.
const RetiredCondition = "Retired"

// Conditions derives Available, Wiped and, for a host that is given back, Retired
// from spec and the last observation. NameInSync and CredentialsStaged say what
// the acts on a claim found; they are set there.
func Conditions(h *Host, seen Observation) []metav1.Condition {
	conditions := []metav1.Condition{available(h, seen), wiped(h, seen)}
	if terminating(h) {
		conditions = append(conditions, retired(h))
	}
	if seen.Refusal != "" {
		// The reinstall was refused, and the deletion was not: the refusal is of the wipe alone.
		apart := seen.WipeRejected && terminating(h) && h.Status.Server.DeletionScheduled
		for i := range conditions {
			if conditions[i].Status == metav1.ConditionFalse && (!apart || conditions[i].Type == infrav1.WipedCondition) {
				conditions[i].Message += "; " + Refused(seen.Refusal)
			}
		}
	}
	if kept, is := keptOut(h, seen.Now); is {
		conditions = append(conditions, kept)
	}
	return conditions
}

// keptOut says who keeps the host out of the pool, also while it is in use, when no
// phase says so; false: nobody does.
func keptOut(h *Host, now time.Time) (metav1.Condition, bool) {
	c := metav1.Condition{Type: infrav1.KeptOutCondition, Status: metav1.ConditionTrue}
	var said []string
	if h.Spec.Maintenance != nil {
		c.Reason = infrav1.ReasonMaintenance
		said = append(said, "the host is in maintenance"+detail(h, SkipMaintenance)+"; recovery and remediation leave it alone")
	}
	if Quarantined(h, now) {
		c.Reason = cmp.Or(c.Reason, infrav1.ReasonQuarantined)
		said = append(said, "the host is quarantined"+detail(h, SkipQuarantined))
	}
	if h.Spec.ClaimRef != nil && h.Spec.Release == nil {
		said = append(said, "Machine "+h.Spec.ClaimRef.Name+" keeps it as long as it lives")
	}
	c.Message = strings.Join(said, "; ")
	return c, c.Reason != ""
}

// Refused says in a condition's message what the vendor refused.
func Refused(what string) string { return "the vendor refuses: " + what }

func available(h *Host, seen Observation) metav1.Condition {
	c := metav1.Condition{Type: infrav1.AvailableCondition, Status: metav1.ConditionFalse}
	switch {
	case seen.Gone:
		c.Reason, c.Message = ReasonGone, "the vendor no longer has this server"
		return c
	case h.Spec.ClaimRef != nil && h.Spec.Release == nil && h.Spec.Record.HandedOverAt == nil && seen.OwnerGone:
		c.Reason = ReasonStranded
		c.Message = "claimed, but no Machine holds this claim; it stays as it is until the Machine comes back, a person releases it, or the sweep wipes it, where orphanReclaim.activeReclaim is on"
		return c
	}
	skip := unavailable(h, seen.Now, seen.PoolPrefixes...)
	if skip == "" && seen.Wanted {
		skip = SkipNamed
	}
	if skip == "" && seen.RefuseUnseen && neverSeenWiped(h) {
		skip = SkipNeverWiped
	}
	if skip == "" {
		c.Status, c.Reason = metav1.ConditionTrue, ReasonAvailable
		return c
	}
	c.Reason, c.Message = skipReasons()[skip], "the host is "+string(skip)+detail(h, skip)
	if skip == SkipNeverWiped {
		c.Message += ": it is wiped once before it is used (pool.trustUnseen is false)"
		if seen.UnseenWaits != "" {
			c.Message += "; that waits: " + seen.UnseenWaits
		}
	}
	return c
}

// detail is what people said, or when it ends.
func detail(h *Host, skip Skip) string {
	switch skip {
	case SkipMaintenance:
		return because(h.Spec.Maintenance.Reason)
	case SkipQuarantined:
		if until := h.Spec.Quarantine.Until; until != nil {
			return " until " + until.UTC().Format(time.RFC3339) + because(h.Spec.Quarantine.Reason)
		}
		return because(h.Spec.Quarantine.Reason)
	case SkipScheduled, SkipRetiring:
		return floor(h)
	}
	return ""
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// floor says until when the vendor bills, if it told.
func floor(h *Host) string {
	if at := h.Status.Server.DeletableAt; at != nil {
		return "; it is billed until " + at.UTC().Format(time.RFC3339) + " at least"
	}
	return ""
}

func retired(h *Host) metav1.Condition {
	c := metav1.Condition{Type: RetiredCondition, Status: metav1.ConditionFalse}
	if h.Status.Server.DeletionScheduled {
		c.Reason, c.Message = infrav1.ReasonDeletionScheduled, "the vendor deletes the server at its billing floor"+floor(h)
		return c
	}
	c.Reason, c.Message = infrav1.ReasonRetiring, "the server is to be wiped before it is given back to the vendor; where that is refused or late it is given back as it is"+floor(h)
	switch {
	case h.Spec.Order != nil:
		c.Message = "the order ends once the vendor's lists show that no server came of it"
	case h.Status.MissingSince != nil && !Deleted(h):
		c.Message = "the vendor's lists lack the server since " + h.Status.MissingSince.UTC().Format(time.RFC3339) + ", and it did not say that it deleted it: if its console has none either, delete this Host"
	case h.Spec.Record.Wipe.StartedAt != nil:
		c.Message = "the server is being given back to the vendor" + floor(h)
	}
	return c
}

func skipReasons() map[Skip]string {
	return map[Skip]string{
		SkipWiping: ReasonWiping, SkipClaimed: ReasonClaimed, SkipRemoved: ReasonRemoved, SkipUnseen: ReasonUnseen,
		SkipMissing: ReasonMissing, SkipNotInPool: ReasonForeign, SkipScheduled: infrav1.ReasonDeletionScheduled,
		SkipUndeliv: infrav1.ReasonNotDelivered, SkipBusy: infrav1.ReasonServerBusy, SkipDirty: infrav1.ReasonNotWiped,
		SkipNamed: ReasonWanted, SkipOrder: infrav1.ReasonOrdering, SkipRetiring: infrav1.ReasonRetiring,
		SkipHandedOver: infrav1.ReasonHandedOver, SkipQuarantined: infrav1.ReasonQuarantined,
		SkipMaintenance: infrav1.ReasonMaintenance, SkipAdopting: ReasonAdopting, SkipNeverWiped: ReasonNeverSeenWiped,
	}
}

func wiped(h *Host, seen Observation) metav1.Condition {
	c := metav1.Condition{Type: infrav1.WipedCondition, Status: metav1.ConditionFalse}
	wipe := h.Spec.Record.Wipe
	switch {
	case seen.WipeRejected && terminating(h):
		c.Reason, c.Message = infrav1.ReasonWipeRejected, "the vendor does not reinstall the server; it is given back as it is"
	case seen.WipeRejected:
		c.Reason, c.Message = infrav1.ReasonWipeRejected, "the vendor does not reinstall the server; it is asked again"
	case wipe.RequestedAt != nil && wipe.ObservedAt == nil && wipe.Repeats > mostRepeats && failedTwice(h):
		c.Reason = infrav1.ReasonReinstallFailed
		c.Message = "the vendor showed the server in error after its reinstall, which was asked for twice; one that is seen to end well still counts"
	case wipe.RequestedAt != nil && wipe.ObservedAt == nil && wipe.Repeats > mostRepeats && Quarantined(h, seen.Now): // else it is asked for anew
		c.Reason, c.Message = infrav1.ReasonWipeTimedOut, "the reinstall was not seen to end in time, twice; a late end still counts"
	case wipe.RequestedAt != nil && wipe.ObservedAt == nil && h.Status.Server.Status == string(cloud.StatusError):
		c.Reason = infrav1.ReasonReinstallFailed
		c.Message = "the vendor shows the server in error after its reinstall was asked for; the host is not free before a reinstall ends well"
	case wipe.StartedAt != nil && wipe.ObservedAt == nil:
		c.Reason, c.Message = infrav1.ReasonReinstalling, "the vendor reinstalls the server"
	case wipe.RequestedAt != nil && wipe.ObservedAt == nil:
		c.Reason, c.Message = infrav1.ReasonWipeRequested, "the reinstall is asked for"
	case wipe.RequiredSince == nil:
		c.Status, c.Reason = metav1.ConditionTrue, ReasonNeverOwned
	case wipe.ObservedAt != nil && wipe.ObservedAt.After(wipe.RequiredSince.Time):
		c.Status, c.Reason = metav1.ConditionTrue, ReasonObserved
	default:
		c.Reason, c.Message = infrav1.ReasonNotWiped, "no wipe was observed since the last claim"
	}
	return c
}

// failedTwice tells a wipe that was abandoned since it failed from one that was late:
// the quarantine says so, and without it the server.
func failedTwice(h *Host) bool {
	if QuarantinedForWipe(h) {
		return h.Spec.Quarantine.Reason == infrav1.ReasonReinstallFailed
	}
	return h.Status.Server.Status == string(cloud.StatusError)
}
