package host

import (
	"fmt"
	"strings"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// NoNamespace stands in the claim of an adoption, which no Machine made and which
// carries its release from the beginning. No object lives there.
const NoNamespace = "-"

// AdoptedCondition of a host with a person's wish to adopt it: False with what
// is in the way.
const AdoptedCondition = "Adopted"

// Reasons of AdoptedCondition beside those that the API names.
const (
	ReasonOwned     = "OwnedByMachine"
	ReasonBadPrefix = "BadPoolPrefix"
)

// AdoptStep is what a person's wish to adopt a host needs next.
type AdoptStep string

// The steps of an adoption.
const (
	// AdoptNothing: nobody wishes it.
	AdoptNothing AdoptStep = "nothing"
	// AdoptDrop: the wish cannot be for this life of the host, or is fulfilled.
	AdoptDrop AdoptStep = "drop"
	// AdoptWait: something is in the way that a person can take away.
	AdoptWait AdoptStep = "wait"
	// AdoptWipe: claim and release the host in one write.
	AdoptWipe AdoptStep = "wipe"
	// AdoptNote: note what the server is named before it is renamed.
	AdoptNote AdoptStep = "note"
	// AdoptRename: give the server the AdoptionName.
	AdoptRename AdoptStep = "rename"
	// AdoptTrust: it bears the name; record that a person answers for the disk.
	AdoptTrust AdoptStep = "trust"
)

// NextAdoption decides from an uncached list of all Machines, and from whether a Ready Node
// bears the host's providerID, which matters only where Owners.Have the host. Reason and
// message say what is in the way.
func NextAdoption(h *Host, machines []infrav1.ScalewayAppleSiliconMachine, nodeReady bool) (step AdoptStep, reason, message string) {
	wish := h.Spec.Adopt
	switch {
	case wish == nil:
		return AdoptNothing, "", ""
	case h.Spec.ClaimRef != nil, h.Spec.Order != nil:
		return AdoptDrop, ReasonClaimed, "the host has an owner"
	case h.Spec.Record.HandedOverAt != nil:
		return AdoptWait, infrav1.ReasonHandedOver, "another management cluster has the host since a move"
	case h.Spec.Maintenance != nil:
		return AdoptWait, infrav1.ReasonMaintenance, "the host is in maintenance"
	case h.Status.Server.Name == "" || h.Status.MissingSince != nil:
		return AdoptWait, ReasonUnseen, "the server was not seen lately"
	case h.Status.Server.DeletionScheduled:
		return AdoptWait, infrav1.ReasonDeletionScheduled, "the vendor is about to delete the server"
	}
	switch owners := OwnersOf(machines); {
	case owners.Account(h):
		return AdoptWait, ReasonOwned, "a live Machine means this host, or the server bears its name"
	case owners.Have(h) && nodeReady: // the Machine may be mistaken about its server
		return AdoptWait, ReasonOwned, "the server bears the name of a live Machine that has another one, and a Ready Node is on it"
	}
	if err := CheckPrefix(wish.PoolPrefix, names(machines)...); err != nil {
		return AdoptWait, ReasonBadPrefix, err.Error()
	}
	pooled := strings.HasPrefix(h.Status.Server.Name, wish.PoolPrefix)
	switch {
	case pooled && wish.TrustDisk:
		return AdoptTrust, "", ""
	case pooled && Clean(h):
		return AdoptDrop, "", ""
	case pooled || h.Status.Server.Name == AdoptionName(h):
		return AdoptWipe, "", ""
	}
	return nextName(h)
}

// AdoptionName is what the server is named once a person's wish to adopt it holds: with a
// trusted disk its name in the pool, otherwise one that is neither a pool's nor a
// Machine's. A Machine that is restored in another cluster does not find its name on a
// server that is being wiped then, and does not claim it again.
func AdoptionName(h *Host) string {
	if h.Spec.Adopt.TrustDisk {
		return PoolName(h.Spec.Adopt.PoolPrefix, h.Spec.ServerID)
	}
	return awayName(h)
}

// awayName has no dash before the id, or it would be a pool's, see InPool.
func awayName(h *Host) string { return "adopting." + h.Spec.ServerID }

// nextName: a manager of another cluster may have named the server before this one has
// seen its new name: its name is theirs then.
func nextName(h *Host) (step AdoptStep, reason, message string) {
	now, before := h.Status.Server.Name, h.Spec.Adopt.ServerName
	switch {
	case before == now:
		return AdoptRename, "", ""
	case before == "", now == awayName(h): // so named when the disk was not trusted yet
		return AdoptNote, "", ""
	}
	return AdoptDrop, infrav1.ReasonChangedByOther, fmt.Sprintf(
		"somebody else named the server %q while it was adopted (it was %q before); it is theirs, and is not adopted", now, before)
}

func names(machines []infrav1.ScalewayAppleSiliconMachine) []string {
	out := make([]string, 0, len(machines))
	for _, m := range machines {
		out = append(out, m.Name)
	}
	return out
}

// Adopt claims a host that nobody has and releases it to the pool in one: the
// wipe that follows makes it clean, whatever was on it, and keeps its OS family.
func Adopt(h *Host, token string, now time.Time) {
	wish := h.Spec.Adopt
	Claim(h, infrav1.ClaimReference{Namespace: NoNamespace, Name: h.Status.Server.Name, Token: token}, now)
	h.Spec.Release = &infrav1.Release{
		Token: token, Policy: infrav1.Recycle, Origin: infrav1.OriginAdoption, PoolPrefix: wish.PoolPrefix,
		OSFamily: h.Status.Server.OSFamily, RequestedAt: *stamp(now),
	}
	h.Spec.Adopt = nil
}

// GiveBack claims a host that nobody has and releases it to the vendor in one, so that no
// Machine claims it meanwhile: it is wiped, where that still works, and its server is deleted.
func GiveBack(h *Host, token string, now time.Time) {
	Claim(h, infrav1.ClaimReference{Namespace: NoNamespace, Name: h.Status.Server.Name, Token: token}, now)
	h.Spec.Release = &infrav1.Release{Token: token, Policy: infrav1.Terminate, RequestedAt: *stamp(now)}
	h.Spec.Adopt = nil
}

// Trust takes a person's word that the disk is clean. Nothing is known of the OS
// on it: the next contact opens an epoch of its own.
func Trust(h *Host, now time.Time) {
	forgetOS(h)
	record := &h.Spec.Record
	record.InstallEpoch++
	record.Wipe.ObservedAt = stampAfter(now, record.Wipe.RequiredSince)
	record.DetachedAt = nil
	h.Spec.Adopt = nil
}
