package host

import (
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
	// WipeNotAllowed: no release of this claim is recorded; do nothing.
	WipeNotAllowed WipeStep = "not-allowed"
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
	// WipeForget: a reinstall that nobody here asked for failed; it never was.
	WipeForget WipeStep = "forget"
	// WipeForeign: the server bears a name that is neither its owner's nor the
	// pool's; it is somebody else's, and nothing destructive is done to it.
	WipeForeign WipeStep = "foreign"
	// WipeEndClaim: it is somebody else's, and no Machine has the claim; end that.
	WipeEndClaim WipeStep = "end-claim"
	// WipeRepeat: the wipe timed out; record that it is asked for again.
	WipeRepeat WipeStep = "repeat"
	// WipeAbandon: it timed out again; quarantine the host, and go on looking.
	WipeAbandon WipeStep = "abandon"
	// WipeDelete: give the server back to the vendor.
	WipeDelete WipeStep = "delete"
)

// mostRepeats is how often a wipe that timed out is asked for again by itself.
// More repeats on the record say that the wipe was abandoned to a person.
const mostRepeats = 1

// WipeInput is a fresh reading of a released server, and what it is judged by.
type WipeInput struct {
	Server cloud.Server
	// Began is when the reading was asked for.
	Began time.Time
	// Settle is how long a start is left alone before an end is believed.
	Settle time.Duration
	// Timeout after which a wipe is asked for again; zero: it has all the time.
	Timeout time.Duration
	// Pools are the prefixes of known pools.
	Pools []string
	// FirstSeen is since when the times of the record are known here.
	FirstSeen FirstSeen
}

// NextWipe decides from a fresh reading of the server. The end of the reinstall comes
// before the rename: neither a crash nor a reinstall that fails may leave an unwiped
// Mac under a pool name. Record.Wipe's RequestedAt is set only while a wipe is under way.
// What counts is when a reading began, not when its answer came: only one that began
// after the request proves that the wipe started, and only one that began after that,
// and the settle time later, proves its end. A wipe that was never seen is asked for
// again.
//
// A claim that no Machine made ends with a foreign name, also when the wipe was asked for:
// nobody's disk waits here for it, and held, it would wipe or delete the server as soon as
// its new owner gives it a pool name again. The host is not clean until a wipe is seen.
func NextWipe(h *Host, in WipeInput) WipeStep {
	if !WipeAllowed(h) {
		return WipeNotAllowed
	}
	step := nextWipe(h, in)
	if step == WipeForeign && h.Spec.ClaimRef.Namespace == NoNamespace {
		return WipeEndClaim
	}
	return step
}

func nextWipe(h *Host, in WipeInput) WipeStep {
	wipe := h.Spec.Record.Wipe
	ours := ownName(h, in)
	if terminating(h) {
		return nextRetirement(h, in, ours)
	}
	late := TimedOut(h, in.Began, in.Timeout) && (wipe.StartedAt == nil || !ended(wipe, in))
	if ours && (late || failed(wipe, in)) {
		if step := onTimeout(h, in.Began); step != "" {
			return step
		}
		if failed(wipe, in) {
			return WipeAbandon // once more: the start of what failed must not meet a later end
		}
	}
	if wipe.RequestedAt == nil || wipe.StartedAt == nil {
		step := beforeWipe(wipe, in, ours)
		if step == WipeReinstall && in.Server.Status == cloud.StatusError && WipeAbandoned(h, in.Began) {
			return WipeWait // it has failed often enough: until a person, or the vendor, does something
		}
		return step
	}
	switch {
	case wipe.ObservedAt == nil && ended(wipe, in):
		return WipeObserve
	case wipe.ObservedAt == nil:
		return WipeWait
	case ours && in.Server.Name != FinalName(h):
		return WipeRename
	}
	return WipeFree // also with a foreign name: then it is whose name it bears
}

// ownName: the server bears its owner's name or that of a pool known here; any other is
// somebody's, also the one that another cluster's release gave it.
func ownName(h *Host, in WipeInput) bool {
	name := in.Server.Name
	return name == h.Spec.ClaimRef.Name || pooledName(name, append(in.Pools, h.Spec.Release.PoolPrefix)...)
}

// FinalName is the server's name when its release has ended: the pool's, or the
// one of an owner that keeps it.
func FinalName(h *Host) string {
	if h.Spec.Release.Policy == infrav1.Recycle {
		return PoolName(h.Spec.Release.PoolPrefix, h.Spec.ServerID)
	}
	return h.Spec.ClaimRef.Name
}

// failed: the vendor shows an error after the wipe was seen to start. That the
// server is ready later says nothing about its disk, unless it was seen reinstalling again.
func failed(wipe infrav1.WipeRecord, in WipeInput) bool {
	return wipe.StartedAt != nil && wipe.ObservedAt == nil && in.Server.Status == cloud.StatusError && !in.Began.Before(from(in.FirstSeen.Started, wipe.StartedAt))
}

func ended(wipe infrav1.WipeRecord, in WipeInput) bool {
	ready := in.Server.Status == cloud.StatusReady && in.Server.Delivered
	return ready && !in.Began.Before(from(in.FirstSeen.Started, wipe.StartedAt).Add(in.Settle))
}

// nextRetirement: a server that is given back is deleted as soon as its wipe
// was seen to start: no tenant's disk waits at a billing floor. A Mac that
// cannot be wiped is given back all the same. A deletion that is scheduled hides no new
// name from a claim of no Machine: that would ask for the deletion again, were it
// cancelled for the server's new owner.
func nextRetirement(h *Host, in WipeInput, ours bool) WipeStep {
	wipe := h.Spec.Record.Wipe
	started := wipe.RequestedAt != nil && wipe.StartedAt != nil
	switch {
	case started && wipe.ObservedAt == nil && ended(wipe, in):
		return WipeObserve
	case !started && !TimedOut(h, in.Began, in.Timeout):
		return beforeWipe(wipe, in, ours)
	case in.Server.DeletionScheduled && (ours || h.Spec.ClaimRef.Namespace != NoNamespace):
		return WipeWait
	case !ours:
		return WipeForeign
	}
	return WipeDelete
}

// TimedOut reports that a wipe was asked for that long ago, and not seen to end.
func TimedOut(h *Host, now time.Time, timeout time.Duration) bool {
	wipe := h.Spec.Record.Wipe
	return timeout > 0 && wipe.RequestedAt != nil && wipe.ObservedAt == nil && now.Sub(wipe.RequestedAt.Time) >= timeout
}

// onTimeout asks once more, and then leaves the host to a person, while everything
// else goes on: the end may still come, and counts. When the quarantine is over,
// the wipe is asked for again.
func onTimeout(h *Host, now time.Time) WipeStep {
	switch repeats := h.Spec.Record.Wipe.Repeats; {
	case repeats == mostRepeats:
		return WipeAbandon
	case repeats < mostRepeats, !WipeAbandoned(h, now):
		return WipeRepeat
	}
	return ""
}

func beforeWipe(wipe infrav1.WipeRecord, in WipeInput, ours bool) WipeStep {
	reinstalling := in.Server.Status == cloud.StatusReinstalling
	switch {
	case wipe.RequestedAt != nil && reinstalling && !in.Began.Before(from(in.FirstSeen.Requested, wipe.RequestedAt)):
		return WipeStart
	case wipe.RequestedAt != nil && reinstalling:
		return WipeWait // an older reinstall
	case !ours:
		return WipeForeign
	case wipe.RequestedAt == nil:
		return WipeRecord
	case vendorBusy(in.Server.Status):
		return WipeWait
	}
	return WipeReinstall
}

// vendorBusy: an act of the vendor's is in progress that ends by itself, or a lock; a
// reinstall would be refused. Words that nobody here knows are none.
func vendorBusy(status cloud.Status) bool {
	switch status {
	case cloud.StatusStarting, cloud.StatusRebooting, "updating", "locking", "locked", "unlocking", "busy":
		return true
	}
	return false
}

// WipePending reports that a wipe cannot be asked for yet, as a reading begun at
// in.Began tells: only another reading, or its timeout, changes that.
func WipePending(h *Host, in WipeInput, now time.Time) bool {
	if TimedOut(h, now, in.Timeout) && !WipeAbandoned(h, now) {
		return false
	}
	return h.Spec.Record.Wipe.StartedAt == nil && vendorBusy(in.Server.Status) && NextWipe(h, in) == WipeWait
}

// NextManualWipe decides, from a reading, about a host that nobody has and that is
// not clean: a reinstall by hand, seen from its beginning to its end, makes it
// clean like one of ours. It only ever starts, observes, forgets or waits. The
// reading may be a list's, which lags behind: the start is left alone for as long.
func NextManualWipe(h *Host, in WipeInput) WipeStep {
	if h.Spec.ClaimRef != nil || h.Spec.Release != nil || Clean(h) {
		return WipeNotAllowed
	}
	in.Settle = max(in.Settle, ListLag)
	wipe := h.Spec.Record.Wipe
	after := wipe.RequiredSince == nil || in.Began.After(from(in.FirstSeen.Required, wipe.RequiredSince))
	switch {
	case wipe.StartedAt == nil && in.Server.Status == cloud.StatusReinstalling && after:
		return WipeStart
	case failed(wipe, in):
		return WipeForget
	case wipe.StartedAt != nil && ended(wipe, in):
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
	wipe.Repeats = 0
	h.Spec.Record.InstallEpoch++
}

// RecordRepeat notes that a wipe which timed out is about to be asked for again.
func RecordRepeat(h *Host, now time.Time) {
	RecordWipe(h, now)
	h.Spec.Record.Wipe.Repeats = mostRepeats
}

// RecordWipeAbandoned leaves a host whose wipe does not end to a person: quarantined,
// unless a quarantine stands already, and looked at still. A start that was seen
// counts no more: only one that is seen from now on can end the wipe.
func RecordWipeAbandoned(h *Host, reason string, now time.Time) {
	h.Spec.Record.Wipe.Repeats = mostRepeats + 1
	h.Spec.Record.Wipe.StartedAt = nil // what runs still is seen to run
	if !Quarantined(h, now) {
		h.Spec.Quarantine = &infrav1.Quarantine{Reason: reason}
	}
}

// WhyNotWiped is the reason of a wipe that came to nothing: the vendor shows the
// server in error, or the time was over.
func WhyNotWiped(status cloud.Status) string {
	if status == cloud.StatusError {
		return infrav1.ReasonReinstallFailed
	}
	return infrav1.ReasonWipeTimedOut
}

// WipeFailedTwice reports a wipe that came to nothing when it was asked for again, too.
func WipeFailedTwice(h *Host) bool { return h.Spec.Record.Wipe.Repeats > mostRepeats }

// QuarantinedForWipe reports a quarantine for a wipe that came to nothing twice.
func QuarantinedForWipe(h *Host) bool {
	q := h.Spec.Quarantine
	return q != nil && (q.Reason == infrav1.ReasonWipeTimedOut || q.Reason == infrav1.ReasonReinstallFailed)
}

// WipeAbandoned reports that a wipe came to nothing twice, and waits for its end or a person.
func WipeAbandoned(h *Host, now time.Time) bool {
	return h.Spec.Release != nil && WipeFailedTwice(h) && Quarantined(h, now)
}

// RecordWipeStart notes that a reading showed the server reinstalling.
func RecordWipeStart(h *Host, now time.Time) {
	wipe := &h.Spec.Record.Wipe
	wipe.StartedAt = stampAfter(now, wipe.RequestedAt)
}

// RecordWiped notes that the server was ready again after the wipe. It ends the
// quarantine of a wipe that was late, and record.detachedAt of the old OS.
func RecordWiped(h *Host, now time.Time) {
	wipe := &h.Spec.Record.Wipe
	wipe.ObservedAt = stampAfter(now, wipe.StartedAt, wipe.RequiredSince)
	wipe.Repeats = 0
	h.Spec.Record.DetachedAt = nil
	if QuarantinedForWipe(h) {
		h.Spec.Quarantine = nil
	}
}

// Finish ends a release whose wipe was observed: a Reinstall gives the host back
// to its owner, everything else frees it.
func Finish(h *Host, now time.Time) {
	if h.Spec.Release == nil || h.Spec.Release.Policy != infrav1.Reinstall {
		Free(h)
		return
	}
	h.Spec.Release = nil
	forgetOS(h)
	record := &h.Spec.Record
	clearFailures(h)
	record.Wipe.RequiredSince = stampAfter(now, record.Wipe.ObservedAt, record.Wipe.RequiredSince)
}

// Free ends claim and release. What the record holds of the wipe and the epoch
// stays; what belonged to the old owner goes.
func Free(h *Host) {
	h.Spec.ClaimRef, h.Spec.Release = nil, nil
	forgetOS(h)
	h.Spec.Record.Bootstrap = infrav1.BootstrapRecord{}
	h.Spec.Record.HandedOverAt = nil
}

// forgetOS drops what was known of an OS that is no more.
func forgetOS(h *Host) {
	record := &h.Spec.Record
	record.HostKey, record.PasswordAttempts, record.Registration = nil, nil, nil
	record.Wipe.RequestedAt, record.Wipe.StartedAt, record.Wipe.ReturnedAt = nil, nil, nil
	record.Wipe.Repeats = 0
}

// RecordReturn notes, once, that the vendor said it deleted the server.
func RecordReturn(h *Host, now time.Time) {
	wipe := &h.Spec.Record.Wipe
	if wipe.ReturnedAt == nil {
		wipe.ReturnedAt = stampAfter(now, wipe.RequestedAt)
	}
}

// Deleted reports that the vendor said it deleted the server. A Terminate alone is no such
// thing, nor is a deletion that was asked for: it may not have arrived, or be due in weeks.
func Deleted(h *Host) bool {
	return terminating(h) && h.Spec.Record.Wipe.ReturnedAt != nil && !h.Status.Server.DeletionScheduled
}

// Returned reports that lists are expected to lack the server: it is Deleted, or the vendor
// was to delete it by now.
func Returned(h *Host, now time.Time) bool {
	server := h.Status.Server
	due := server.DeletionScheduled && server.DeletableAt != nil && !server.DeletableAt.After(now)
	return Deleted(h) || terminating(h) && due
}

// NodeMustGo reports that no Node may bear the host's providerID: it was let go,
// and the OS that knew the old owner may still run.
func NodeMustGo(h *Host) bool {
	record := h.Spec.Record
	switch {
	case WipeAllowed(h):
		return record.Wipe.RequestedAt == nil || record.Wipe.ObservedAt == nil
	case h.Spec.Release != nil, h.Spec.ClaimRef != nil, record.HandedOverAt != nil:
		return false
	}
	return record.DetachedAt != nil
}

// ForgetWipe notes that a reinstall that was seen to start by hand came to nothing.
func ForgetWipe(h *Host) {
	h.Spec.Record.Wipe.RequestedAt, h.Spec.Record.Wipe.StartedAt = nil, nil
}
