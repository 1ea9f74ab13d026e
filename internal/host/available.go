package host

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// Unavailable says why nobody can claim the host from a pool with one of these
// prefixes, or "" when it is available. A quarantine counts until the host
// controller has taken it off, also when its time is over.
func Unavailable(h *Host, prefixes ...string) Skip {
	if skip := unavailable(h, time.Time{}, prefixes...); skip != "" {
		return skip
	}
	if c := meta.FindStatusCondition(h.Status.Conditions, infrav1.AvailableCondition); c != nil {
		switch c.Reason {
		case ReasonWanted:
			return SkipNamed
		case ReasonNeverSeenWiped:
			return SkipNeverWiped
		}
	}
	return ""
}

// unavailable is Unavailable without what only the Machines tell, at a time.
func unavailable(h *Host, now time.Time, prefixes ...string) Skip {
	if WipeAbandoned(h, now) {
		return SkipQuarantined
	}
	if skip := taken(h); skip != "" {
		return skip
	}
	server := h.Status.Server
	switch {
	case server.Name == "":
		return SkipUnseen
	case h.Status.MissingSince != nil:
		return SkipMissing
	case server.DeletionScheduled:
		return SkipScheduled
	case h.Spec.Maintenance != nil:
		return SkipMaintenance
	case Quarantined(h, now):
		return SkipQuarantined
	case !InPool(server.Name, h.Spec.ServerID, prefixes...):
		return SkipNotInPool
	case h.Spec.Adopt != nil:
		return SkipAdopting
	}
	return notReady(h)
}

// taken: somebody has the host, or it is about to go.
func taken(h *Host) Skip {
	switch {
	case terminating(h):
		return SkipRetiring
	case h.Spec.Release != nil:
		return SkipWiping
	case h.Spec.Order != nil:
		return SkipOrder
	case h.Spec.Record.HandedOverAt != nil:
		return SkipHandedOver
	case h.Spec.ClaimRef != nil:
		return SkipClaimed
	case !h.DeletionTimestamp.IsZero():
		return SkipRemoved
	}
	return ""
}

// notReady: the server in the pool cannot be used as it is.
func notReady(h *Host) Skip {
	server := h.Status.Server
	switch {
	case !server.Delivered:
		return SkipUndeliv
	case server.Status == string(cloud.StatusReinstalling):
		return SkipWiping
	case server.Status != string(cloud.StatusReady):
		return SkipBusy
	case !Clean(h):
		return SkipDirty
	}
	return ""
}

// Clean reports that nobody has owned the disk since the last observed wipe. A
// host nobody ever claimed is clean: a fresh order of the operator's.
func Clean(h *Host) bool {
	wipe := h.Spec.Record.Wipe
	if wipe.RequestedAt != nil {
		return false // asked for, and not seen to its end
	}
	return wipe.RequiredSince == nil || (wipe.ObservedAt != nil && wipe.ObservedAt.After(wipe.RequiredSince.Time))
}
