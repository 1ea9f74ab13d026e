package host

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// FailureClass says what a failed bootstrap asks for, in the words that a Mac's
// report uses.
type FailureClass string

// The classes of failure.
const (
	ClassRetry     FailureClass = "retry"
	ClassWait      FailureClass = "wait"
	ClassReboot    FailureClass = "reboot"
	ClassReinstall FailureClass = "reinstall"
	ClassHuman     FailureClass = "human"
	ClassBug       FailureClass = "bug"
)

// Counts reports that a failure may be the Mac's own fault, and so brings its
// recovery closer. What waits for something outside, or is a mistake of ours,
// would be the same on every other Mac.
func (c FailureClass) Counts() bool { return c != ClassWait && c != ClassBug }

// Recovery is what is done about a Mac whose bootstrap failed.
type Recovery string

// The recoveries, from the cheapest.
const (
	// RecoverRetry: push again after the back-off.
	RecoverRetry Recovery = "retry"
	// RecoverReboot: ask for the one reboot of the claim.
	RecoverReboot Recovery = "reboot"
	// RecoverReturn: give the host back to the pool, to be wiped, and take another.
	RecoverReturn Recovery = "return"
	// RecoverReinstall: have the server that was ordered for the Machine wiped; it
	// stays the Machine's.
	RecoverReinstall Recovery = "reinstall"
	// RecoverStay: a tier is due, and forbidden here. Pushes go on.
	RecoverStay Recovery = "stay"
)

// RecoveryInput is what the ladder decides from. The thresholds count failures of
// the host's present claim; 0 turns a tier off.
type RecoveryInput struct {
	Class       FailureClass
	RebootAfter int
	MaxAttempts int
	// PoolPrefix of the pool to go back to; empty: there is none.
	PoolPrefix string
	// TakeOver: the Mac is taken over from another system, and its guests may live.
	TakeOver bool
	// ReadyNode: the Mac is a Node already, and Ready. Its guests live, whatever becomes of
	// pushes to it.
	ReadyNode bool
	// LeastTime since the first failure of the claim until a tier acts that a number of
	// failures brings: a few refused dials in a minute say little about a Mac. 0: none.
	LeastTime time.Duration
	Now       time.Time
}

// failedLongEnough reports that the claim's failures go on for the least time.
func (in RecoveryInput) failedLongEnough(record infrav1.BootstrapRecord) bool {
	if in.LeastTime == 0 {
		return true
	}
	return record.FirstFailedAt != nil && in.Now.Sub(record.FirstFailedAt.Time) >= in.LeastTime
}

// CountFailure adds a failed attempt to the record of a claim.
func CountFailure(h *Host, now time.Time) {
	record := &h.Spec.Record.Bootstrap
	record.Attempts++
	if record.FirstFailedAt == nil {
		record.FirstFailedAt = &metav1.Time{Time: now}
	}
}

// clearFailures is for a claim that begins anew on a wiped disk.
func clearFailures(h *Host) {
	record := &h.Spec.Record.Bootstrap
	record.Attempts, record.AttemptsAtReboot, record.FirstFailedAt = 0, 0, nil
}

// SinceReboot is how many attempts of the claim failed after its one reboot; all of them
// where it had none.
func SinceReboot(record infrav1.BootstrapRecord) int32 {
	return record.Attempts - record.AttemptsAtReboot
}

// NextRecovery decides about a host whose bootstrap has just failed, from its record. A tier
// that is due where it is forbidden makes the Mac stay; before one is due, nothing is
// forbidden, and the failure is one like any other.
func NextRecovery(h *Host, in RecoveryInput) (Recovery, string) {
	next, why := dueRecovery(h, in)
	if next == RecoverRetry {
		return next, why
	}
	if spared := sparedBy(h, in); spared != "" {
		return RecoverStay, spared
	}
	return next, why
}

// dueRecovery is what the failures ask for. What only a person can mend, or what waits for
// something outside, reaches no tier; what only a wipe mends, as a dirty disk, goes at once to
// the tier that wipes. The reboot comes before what the most attempts bring, also where it was
// held back until then: it is the cheaper one.
func dueRecovery(h *Host, in RecoveryInput) (Recovery, string) {
	record := h.Spec.Record.Bootstrap
	switch {
	case in.Class == ClassHuman, !in.Class.Counts():
		return RecoverRetry, ""
	case in.Class == ClassReinstall:
		return nextReplacement(h, in, "only a wipe mends the Mac")
	case in.exhausted(record) && !(in.rebootsFirst() && rebootDue(h, in)):
		return nextReplacement(h, in, fmt.Sprintf("%d attempts failed", record.Attempts))
	case rebootDue(h, in):
		return RecoverReboot, fmt.Sprintf("%d attempts failed", record.Attempts)
	}
	return RecoverRetry, ""
}

// sparedBy says why recovery neither reboots nor wipes the Mac, whatever fails; empty: it may.
func sparedBy(h *Host, in RecoveryInput) string {
	switch {
	case h.Spec.Record.HandedOverAt != nil:
		return "the host is another management cluster's"
	case h.Spec.Maintenance != nil:
		return "the host is in maintenance"
	case in.TakeOver:
		return "the Mac is taken over as it stands, and neither rebooted nor wiped by itself: mend it, or delete the Machine"
	case in.ReadyNode:
		return "the Mac's Node is Ready, and so it is neither rebooted nor wiped by itself: mend it, or delete the Machine"
	}
	return ""
}

// exhausted: the most attempts failed, and as many after the reboot as lie between the two
// thresholds. Where the least time put the reboot off, the wipe would follow it at once.
func (in RecoveryInput) exhausted(record infrav1.BootstrapRecord) bool {
	return in.MaxAttempts > 0 && int(record.Attempts) >= in.MaxAttempts &&
		int(SinceReboot(record)) >= in.MaxAttempts-in.RebootAfter && in.failedLongEnough(record)
}

// rebootsFirst reports that the thresholds leave attempts between the reboot and the wipe.
func (in RecoveryInput) rebootsFirst() bool { return in.RebootAfter < in.MaxAttempts }

func nextReplacement(h *Host, in RecoveryInput, why string) (Recovery, string) {
	switch {
	case in.MaxAttempts == 0:
		return RecoverStay, why + "; returning hosts to the pool is turned off"
	case h.Spec.Record.Ordered && Quarantined(h, in.Now):
		return RecoverStay, why + "; the server is quarantined: " + h.Spec.Quarantine.Reason
	case h.Spec.Record.Ordered:
		return RecoverReinstall, why
	case in.PoolPrefix == "":
		return RecoverStay, why + "; no pool prefix is known, so the host goes back to no pool"
	}
	return RecoverReturn, why
}

// rebootDue: once for each claim, and not while anybody's reboot is pending. A
// class that asks for a reboot does not wait for the threshold.
func rebootDue(h *Host, in RecoveryInput) bool {
	record := h.Spec.Record.Bootstrap
	if in.RebootAfter == 0 || record.RebootIssued || h.Spec.Reboot != nil {
		return false
	}
	return in.Class == ClassReboot || int(record.Attempts) >= in.RebootAfter && in.failedLongEnough(record)
}

// rebootSettles is how long a reboot that the vendor took may stay invisible: one
// interval of the inventory and its list's lag.
const rebootSettles = time.Minute

// rebootHold is how long recovery's own reboot holds back the pushes to a Mac that is not a
// Node yet: from record.disturbedAt on until the vendor takes it, and from lastReboot.at on
// while the vendor calls the server rebooting. Pushes fail after that as before, so that a
// vendor who never takes the reboot, or never ends it, does not keep the Machine from
// another Mac.
const rebootHold = 10 * time.Minute

// Rebooting reports that the host is about to reboot, or does so, and that it must
// not be pushed to. Until is when that may be over without any word of the
// vendor; zero: a change of the host says so. A request that waits for the host to
// be empty holds back only what has not made it a Node yet.
func Rebooting(h *Host, provisioned bool, now time.Time) (is bool, until time.Time) {
	if r := h.Spec.Reboot; r != nil && (r.Force || !provisioned) {
		if until, limited := requestHolds(h, provisioned); !limited || now.Before(until) {
			return true, until
		}
	}
	if h.Status.Server.Status == string(cloud.StatusRebooting) {
		if until, limited := restartHolds(h, provisioned); !limited || now.Before(until) {
			return true, until
		}
	}
	settled := h.Status.LastReboot.At.Add(rebootSettles)
	return now.Before(settled), settled
}

// requestHolds is until when the pending reboot holds back pushes, if that is limited: one
// that a person asked for is theirs to take back.
func requestHolds(h *Host, provisioned bool) (until time.Time, limited bool) {
	if provisioned || !asksForRecovery(h) {
		return time.Time{}, false
	}
	if at := h.Spec.Record.DisturbedAt; at != nil {
		until = at.Add(rebootHold)
	}
	return until, true
}

// restartHolds is the same of a reboot that the vendor shows. Of one that nobody here asked
// for no time is on record.
func restartHolds(h *Host, provisioned bool) (until time.Time, limited bool) {
	at := h.Status.LastReboot.At
	if provisioned || at.IsZero() {
		return time.Time{}, false
	}
	return at.Add(rebootHold), true
}

// asksForRecovery reports that the pending reboot is the one of the present claim's recovery.
func asksForRecovery(h *Host) bool {
	return h.Spec.ClaimRef != nil && h.Spec.Reboot != nil && h.Spec.Reboot.ID == BootstrapRebootID(h.Spec.ClaimRef.Token)
}

// AskForReboot records, in one change of the host, the one reboot of a claim's
// recovery, and that it disturbs the host.
func AskForReboot(h *Host, token, reason string, now time.Time) {
	h.Spec.Reboot = &infrav1.RebootRequest{ID: BootstrapRebootID(token), Reason: RebootReason(reason), Force: true}
	RecordDisruption(h, now)
}

// WhyRecoveryReboots is the reason of the reboot that recovery of the present claim asks for,
// or that was the host's last; empty: it is neither.
func WhyRecoveryReboots(h *Host) string {
	c := meta.FindStatusCondition(h.Status.Conditions, RebootedCondition)
	switch {
	case asksForRecovery(h):
		return h.Spec.Reboot.Reason
	case h.Spec.ClaimRef == nil, h.Spec.Reboot != nil, c == nil, c.Reason != ReasonRebootTaken:
		return ""
	case h.Status.LastReboot.ID == BootstrapRebootID(h.Spec.ClaimRef.Token):
		return c.Message
	}
	return ""
}

// WhyPersonReboots tells of the reboot that a person asks for, or that was the host's last
// within the time that one may take; empty: it is nobody's, or macfleet's own.
func WhyPersonReboots(h *Host, now time.Time) string {
	const asked = "somebody asked for it"
	last, c := h.Status.LastReboot, meta.FindStatusCondition(h.Status.Conditions, RebootedCondition)
	switch {
	case h.Spec.Reboot != nil && byPerson(h.Spec.Reboot.ID):
		return asked + ": " + h.Spec.Reboot.Reason
	case h.Spec.Reboot != nil, !byPerson(last.ID), !now.Before(last.At.Add(rebootHold)):
		return ""
	case c == nil, c.Reason != ReasonRebootTaken:
		return asked
	}
	return asked + ": " + c.Message
}

// byPerson reports that no part of macfleet gives a reboot such an id.
func byPerson(id string) bool {
	return id != "" && !strings.HasPrefix(id, BootstrapRebootID("")) && !strings.HasPrefix(id, remediationPrefix) && !isLeakReboot(id)
}

// WithdrawReboot takes back the reboot of the claim's recovery that the vendor has not
// taken, and reports whether there was one.
func WithdrawReboot(h *Host) bool {
	asked := asksForRecovery(h)
	if asked {
		h.Spec.Reboot = nil
	}
	return asked
}

// ReleaseUnhealthy records, in one change of the host, that a claim came to nothing and that
// the host is wiped for it: with policy Recycle it goes back to the pool, with
// Reinstall it stays its Machine's. The reboot that was asked for this claim goes.
func ReleaseUnhealthy(h *Host, release infrav1.Release, reason string, now time.Time) {
	release.Origin = infrav1.OriginRecovery
	release.RequestedAt = *stamp(now)
	h.Spec.Release = &release
	WithdrawReboot(h)
	clearFailures(h)
	RecordDisruption(h, now)
	recordFailure(h, reason, now)
}
