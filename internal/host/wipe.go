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
	// WipeForget: a reinstall that nobody here asked for failed; it never was.
	WipeForget WipeStep = "forget"
	// WipeHeld: the server bears a name that is neither its owner's nor the
	// pool's; it is somebody else's, and nothing destructive is done to it.
	WipeHeld WipeStep = "held"
	// WipeRepeat: the wipe timed out; record that it is asked for again.
	WipeRepeat WipeStep = "repeat"
	// WipeGiveUp: it timed out again; quarantine the host, and go on looking.
	WipeGiveUp WipeStep = "give-up"
	// WipeDelete: give the server back to the vendor.
	WipeDelete WipeStep = "delete"
)

// mostRepeats is how often a wipe that timed out is asked for again by itself.
// More repeats on the record say that the host was given up to a person.
const mostRepeats = 1

// WipeLook is a fresh reading of a released server, and what it is judged by.
type WipeLook struct {
	Server cloud.Server
	// Began is when the reading was asked for.
	Began time.Time
	// Settle is how long a start is left alone before an end is believed.
	Settle time.Duration
	// Timeout after which a wipe is asked for again; zero: it has all the time.
	Timeout time.Duration
	// Pools are the prefixes of known pools.
	Pools []string
	// Known is since when the times of the record are known here.
	Known Known
}

// NextWipe decides from a fresh reading of the server. The reinstall comes before
// the rename: no crash may leave an unwiped Mac under a pool name. Record.Wipe's
// RequestedAt is set only while a wipe is under way. What counts is when a reading
// began, not when its answer came: only one that began after the request proves
// that the wipe started, and only one that began after that, and the settle time
// later, proves its end. A wipe that was never seen is asked for again.
func NextWipe(h *Host, look WipeLook) WipeStep {
	if !Licensed(h) {
		return WipeUnlicensed
	}
	wipe := h.Spec.Record.Wipe
	ours := ownName(h, look)
	if terminating(h) {
		return nextRetirement(h, look, ours)
	}
	late := TimedOut(h, look.Began, look.Timeout) && (wipe.StartedAt == nil || !ended(wipe, look))
	if ours && (late || failed(wipe, look)) {
		if step := onTimeout(h, look.Began); step != "" {
			return step
		}
	}
	if wipe.RequestedAt == nil || wipe.StartedAt == nil {
		return beforeWipe(wipe, look, ours)
	}
	switch {
	case wipe.ObservedAt == nil && ended(wipe, look):
		return WipeObserve
	case ours && look.Server.Name != FinalName(h):
		return WipeRename
	case wipe.ObservedAt != nil:
		return WipeFree // also with a foreign name: then it is whose name it bears
	}
	return WipeWait
}

// ownName: the server bears its owner's name or a pool's; any other is somebody's.
func ownName(h *Host, look WipeLook) bool {
	name := look.Server.Name
	return name == h.Spec.ClaimRef.Name || InPool(name, h.Spec.ServerID, append(look.Pools, h.Spec.Release.PoolPrefix)...)
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
func failed(wipe infrav1.WipeRecord, look WipeLook) bool {
	return wipe.StartedAt != nil && wipe.ObservedAt == nil && look.Server.Status == cloud.StatusError && !look.Began.Before(from(look.Known.Started, wipe.StartedAt))
}

func ended(wipe infrav1.WipeRecord, look WipeLook) bool {
	ready := look.Server.Status == cloud.StatusReady && look.Server.Delivered
	return ready && !look.Began.Before(from(look.Known.Started, wipe.StartedAt).Add(look.Settle))
}

// nextRetirement: a server that is given back is deleted as soon as its wipe
// was seen to start: no tenant's disk waits at a billing floor. A Mac that
// cannot be wiped is given back all the same.
func nextRetirement(h *Host, look WipeLook, ours bool) WipeStep {
	wipe := h.Spec.Record.Wipe
	started := wipe.RequestedAt != nil && wipe.StartedAt != nil
	switch {
	case started && wipe.ObservedAt == nil && ended(wipe, look):
		return WipeObserve
	case !started && !TimedOut(h, look.Began, look.Timeout):
		return beforeWipe(wipe, look, ours)
	case look.Server.DeletionScheduled:
		return WipeWait
	case !ours:
		return WipeHeld
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
		return WipeGiveUp
	case repeats < mostRepeats, !GivenUp(h, now):
		return WipeRepeat
	}
	return ""
}

func beforeWipe(wipe infrav1.WipeRecord, look WipeLook, ours bool) WipeStep {
	reinstalling := look.Server.Status == cloud.StatusReinstalling
	switch {
	case wipe.RequestedAt != nil && reinstalling && !look.Began.Before(from(look.Known.Requested, wipe.RequestedAt)):
		return WipeStart
	case wipe.RequestedAt != nil && reinstalling:
		return WipeWait // an older reinstall
	case !ours:
		return WipeHeld
	case wipe.RequestedAt == nil:
		return WipeRecord
	case passing(look.Server.Status):
		return WipeWait
	}
	return WipeReinstall
}

// passing: an act of the vendor's is in progress that ends by itself, or a lock; a
// reinstall would be refused. Words that nobody here knows are none.
func passing(status cloud.Status) bool {
	switch status {
	case cloud.StatusStarting, cloud.StatusRebooting, "updating", "locking", "locked", "unlocking", "busy":
		return true
	}
	return false
}

// WipeRests reports that a wipe cannot be asked for yet, as a reading begun at
// look.Began tells: only another reading, or its timeout, changes that.
func WipeRests(h *Host, look WipeLook, now time.Time) bool {
	if TimedOut(h, now, look.Timeout) && !GivenUp(h, now) {
		return false
	}
	return h.Spec.Record.Wipe.StartedAt == nil && passing(look.Server.Status) && NextWipe(h, look) == WipeWait
}

// NextUnasked decides, from a reading, about a host that nobody has and that is
// not clean: a reinstall by hand, seen from its beginning to its end, makes it
// clean like one of ours. It only ever starts, observes, forgets or waits. The
// reading may be a list's, which lags behind: the start is left alone for as long.
func NextUnasked(h *Host, look WipeLook) WipeStep {
	if h.Spec.ClaimRef != nil || h.Spec.Release != nil || Clean(h) {
		return WipeUnlicensed
	}
	look.Settle = max(look.Settle, ListLag)
	wipe := h.Spec.Record.Wipe
	after := wipe.RequiredSince == nil || look.Began.After(from(look.Known.Required, wipe.RequiredSince))
	switch {
	case wipe.StartedAt == nil && look.Server.Status == cloud.StatusReinstalling && after:
		return WipeStart
	case failed(wipe, look):
		return WipeForget
	case wipe.StartedAt != nil && ended(wipe, look):
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

// RecordGivenUp leaves a host whose wipe does not end to a person: quarantined,
// unless a quarantine stands already, and looked at still. A start that was seen
// counts no more: only one that is seen from now on can end the wipe.
func RecordGivenUp(h *Host, now time.Time) {
	h.Spec.Record.Wipe.Repeats = mostRepeats + 1
	h.Spec.Record.Wipe.StartedAt = nil // what runs still is seen to run
	if !Quarantined(h, now) {
		h.Spec.Quarantine = &infrav1.Quarantine{Reason: infrav1.ReasonWipeTimedOut}
	}
}

// GivenUp reports that a wipe timed out twice, and waits for its end or a person.
func GivenUp(h *Host, now time.Time) bool {
	return h.Spec.Release != nil && h.Spec.Record.Wipe.Repeats > mostRepeats && Quarantined(h, now)
}

// RecordWipeStart notes that a reading showed the server reinstalling.
func RecordWipeStart(h *Host, now time.Time) {
	wipe := &h.Spec.Record.Wipe
	wipe.StartedAt = stampAfter(now, wipe.RequestedAt)
}

// RecordWiped notes that the server was ready again after the wipe. It ends the
// quarantine of a wipe that was late, and what was held against the old OS.
func RecordWiped(h *Host, now time.Time) {
	wipe := &h.Spec.Record.Wipe
	wipe.ObservedAt = stampAfter(now, wipe.StartedAt, wipe.RequiredSince)
	wipe.Repeats = 0
	h.Spec.Record.DetachedAt = nil
	if q := h.Spec.Quarantine; q != nil && q.Reason == infrav1.ReasonWipeTimedOut {
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
	forgetFailures(h)
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
	record.HostKey, record.PasswordAttempts = nil, nil
	record.Wipe.RequestedAt, record.Wipe.StartedAt = nil, nil
	record.Wipe.Repeats = 0
}

// NodeMustGo reports that no Node may bear the host's providerID: it was let go,
// and the OS that knew the old owner may still run.
func NodeMustGo(h *Host) bool {
	record := h.Spec.Record
	switch {
	case Licensed(h):
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
