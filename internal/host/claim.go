package host

import (
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Claim writes a claim into the host's spec. From then on only a wipe observed
// later makes the disk clean. A host that no wipe of ours preceded gets a new
// install epoch: its key may be pinned at first contact.
func Claim(h *Host, ref infrav1.ClaimReference, now time.Time) {
	record := &h.Spec.Record
	wiped := record.Wipe.ObservedAt != nil && Clean(h)
	h.Spec.ClaimRef = &ref
	record.Wipe.RequiredSince = stampAfter(now, record.Wipe.ObservedAt, record.Wipe.RequiredSince)
	record.Wipe.RequestedAt, record.Wipe.StartedAt, record.Wipe.ReturnedAt = nil, nil, nil // a wipe before this claim is none after it
	record.Bootstrap = infrav1.BootstrapRecord{ClaimToken: ref.Token}
	record.Registration = nil
	record.DetachedAt, record.HandedOverAt = nil, nil
	record.Ordered = false // by an earlier owner: it must not end in Terminate for this one
	if !wiped {
		record.InstallEpoch++
		record.HostKey = nil
		record.PasswordAttempts = nil
	}
}

// Detach ends a claim without a wipe: the host is nobody's here, and not clean. No
// Node may bear its providerID until it is wiped or claimed again. A reinstall for
// the owner that goes ends with the claim.
func Detach(h *Host, now time.Time) {
	h.Spec.ClaimRef, h.Spec.Release, h.Spec.Reboot = nil, nil, nil
	h.Spec.Record.DetachedAt = stamp(now)
}

// RecordMove notes in record.handedOverAt that clusterctl moves the owner to another management cluster.
func RecordMove(h *Host, now time.Time) { h.Spec.Record.HandedOverAt = stamp(now) }

// Ending reports that a release is recorded that ends the claim. A reinstall does
// not: its Machine keeps the host, and may still let it go.
func Ending(h *Host) bool {
	return h.Spec.Release != nil && h.Spec.Release.Policy != infrav1.Reinstall
}

// WipeAllowed reports that the host may be wiped: a release is recorded, and it
// ends the claim that the host has.
func WipeAllowed(h *Host) bool {
	return h.Spec.Release != nil && h.Spec.ClaimRef != nil && h.Spec.ClaimRef.Token == h.Spec.Release.Token && h.Spec.Release.Token != ""
}

// ShowStep is what a claim's name needs next.
type ShowStep string

// The steps of showing a claim to the vendor.
const (
	// ShowRename: the server still bears a pool name; rename it.
	ShowRename ShowStep = "rename"
	// ShowRecord: the name reads back for the first time; record since when.
	ShowRecord ShowStep = "record"
	// ShowSettle: a rename that timed out may still land; wait, then read again.
	ShowSettle ShowStep = "settle"
	// ShowStage: the name stayed; the credentials of this reading can be staged.
	ShowStage ShowStep = "stage"
	// ShowLost: somebody else named the server; do nothing to it.
	ShowLost ShowStep = "lost"
	// ShowGoing: the vendor is to delete the server, and nobody works on it yet; its
	// Machine takes another.
	ShowGoing ShowStep = "going"
)

// NameSettles is what NameInSync says of each claim for a moment. It is no news to its
// Machine.
const NameSettles = "the name must stay for a moment"

// ShowInput is a fresh reading of a claimed server's name.
type ShowInput struct {
	Name string
	// Began is when the reading was asked for.
	Began time.Time
	// Settle is how long the name must have stayed.
	Settle time.Duration
	// DeletionScheduled: the vendor is to delete the server.
	DeletionScheduled bool
	// Given: its owner has been given the Mac, by its credentials or before this claim.
	Given bool
	// Pools are the prefixes of the pools that the server may come from.
	Pools []string
	// FirstSeen is since when the times of the record are known here.
	FirstSeen FirstSeen
}

// NextShow decides from a fresh reading of the server's name. Only a server that
// bears a pool name is renamed: any other name is somebody's. A server that is to be
// deleted is given to nobody, as one that another cluster gave back after the last
// list: its guests would go with it.
func NextShow(h *Host, in ShowInput) ShowStep {
	shown := h.Status.ShownSince
	ours := in.Name == h.Spec.ClaimRef.Name
	free := shown == nil && pooledName(in.Name, in.Pools...)
	switch {
	case in.DeletionScheduled && !in.Given && (ours || free):
		return ShowGoing
	case ours && shown == nil:
		return ShowRecord
	case ours && in.Began.Before(from(in.FirstSeen.Shown, shown).Add(in.Settle)):
		return ShowSettle
	case ours:
		return ShowStage
	case free:
		return ShowRename
	}
	return ShowLost
}
