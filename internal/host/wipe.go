package host

import (
	"strings"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// RepeatWipe is how long an acknowledged reinstall may stay invisible before it
// is asked for again: a vendor's readings lag behind its writes by less.
const RepeatWipe = time.Minute

// WipeStep is what a released host needs next.
type WipeStep string

// The steps of a wipe, in their order.
const (
	// WipeUnlicensed: no release of this claim is recorded; do nothing.
	WipeUnlicensed WipeStep = "unlicensed"
	// WipeRecord: record that the wipe is about to be asked for.
	WipeRecord WipeStep = "record"
	// WipeReinstall: ask the vendor for the reinstall.
	WipeReinstall WipeStep = "reinstall"
	// WipeStart: the server was seen reinstalling; record that it started.
	WipeStart WipeStep = "start"
	// WipeObserve: the server is ready again; record that the wipe was observed.
	WipeObserve WipeStep = "observe"
	// WipeRename: give the server its pool name.
	WipeRename WipeStep = "rename"
	// WipeFree: wiped, and named as the pool's; clear claim and release.
	WipeFree WipeStep = "free"
	// WipeWait: nothing to do until the vendor shows something else.
	WipeWait WipeStep = "wait"
	// WipeHeld: the server bears a name that is neither its owner's nor the
	// pool's; it is somebody else's, and nothing destructive is done to it.
	WipeHeld WipeStep = "held"
)

// NextWipe decides from a fresh reading of the server. The reinstall comes before
// the rename: no crash may leave an unwiped Mac under a pool name. Record.Wipe's
// RequestedAt is set only while a wipe is under way. What counts is when a reading
// began, not when its answer came: only one that began after the request proves
// that the wipe started, and only one that began after that, and the settle time
// later, proves its end. A wipe that was never seen is asked for again.
func NextWipe(h *Host, server cloud.Server, began time.Time, settle time.Duration) WipeStep {
	if !Licensed(h) {
		return WipeUnlicensed
	}
	wipe := h.Spec.Record.Wipe
	ours := server.Name == h.Spec.ClaimRef.Name || strings.HasPrefix(server.Name, h.Spec.Release.PoolPrefix)
	if wipe.RequestedAt == nil || wipe.StartedAt == nil {
		return beforeWipe(wipe, server, began, ours)
	}
	ready := server.Status == cloud.StatusReady && server.Delivered
	switch {
	case wipe.ObservedAt == nil && ready && !began.Before(wipe.StartedAt.Add(settle)):
		return WipeObserve
	case ours && server.Name != PoolName(h.Spec.Release.PoolPrefix, h.Spec.ServerID):
		return WipeRename
	case wipe.ObservedAt != nil:
		return WipeFree // also with a foreign name: then it is whose name it bears
	}
	return WipeWait
}

func beforeWipe(wipe infrav1.WipeRecord, server cloud.Server, began time.Time, ours bool) WipeStep {
	reinstalling := server.Status == cloud.StatusReinstalling
	switch {
	case wipe.RequestedAt != nil && reinstalling && !began.Before(wipe.RequestedAt.Time):
		return WipeStart
	case wipe.RequestedAt != nil && reinstalling:
		return WipeWait // an older reinstall, or a clock that was ahead
	case !ours:
		return WipeHeld
	case wipe.RequestedAt == nil:
		return WipeRecord
	}
	return WipeReinstall
}

// NextUnasked decides, from a reading, about a host that nobody has and that is
// not clean: a reinstall by hand, seen from its beginning to its end, makes it
// clean like one of ours. It only ever starts, observes or waits.
func NextUnasked(h *Host, server cloud.Server, began time.Time, settle time.Duration) WipeStep {
	if h.Spec.ClaimRef != nil || h.Spec.Release != nil || Clean(h) {
		return WipeUnlicensed
	}
	wipe := h.Spec.Record.Wipe
	after := wipe.RequiredSince == nil || began.After(wipe.RequiredSince.Time)
	ready := server.Status == cloud.StatusReady && server.Delivered
	switch {
	case wipe.StartedAt == nil && server.Status == cloud.StatusReinstalling && after:
		return WipeStart
	case wipe.StartedAt != nil && ready && !began.Before(wipe.StartedAt.Add(settle)):
		return WipeObserve
	}
	return WipeWait
}

// RecordWipe notes that a wipe is about to be asked for. It opens the next
// install epoch in the same write: what is known of the old OS ends here.
func RecordWipe(h *Host, now time.Time) {
	wipe := &h.Spec.Record.Wipe
	wipe.Generation++
	wipe.RequestedAt = stampAfter(now, wipe.RequiredSince)
	wipe.StartedAt, wipe.ObservedAt = nil, nil
	h.Spec.Record.InstallEpoch++
}

// RecordWipeStart notes that a reading showed the server reinstalling.
func RecordWipeStart(h *Host, now time.Time) {
	wipe := &h.Spec.Record.Wipe
	wipe.StartedAt = stampAfter(now, wipe.RequestedAt)
}

// RecordWiped notes that the server was ready again after the wipe.
func RecordWiped(h *Host, now time.Time) {
	wipe := &h.Spec.Record.Wipe
	wipe.ObservedAt = stampAfter(now, wipe.StartedAt, wipe.RequiredSince)
}

// Free ends claim and release. What the record holds of the wipe and the epoch
// stays; what belonged to the old owner goes.
func Free(h *Host) {
	h.Spec.ClaimRef, h.Spec.Release = nil, nil
	record := &h.Spec.Record
	record.HostKey, record.PasswordAttempts = nil, nil
	record.Bootstrap = infrav1.BootstrapRecord{}
	record.Wipe.RequestedAt, record.Wipe.StartedAt = nil, nil
}
