package machine

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/rollout"
)

// Push is what a Mac lacks.
type Push struct {
	// Needed: it is pushed to now.
	Needed bool
	// Join: it gets a fresh token with the push.
	Join bool
	// Update: it runs, and is changed because its update permit allows it.
	Update bool
}

// NextPush compares what was done with what is there. Joinable: the Mac holds a token
// that may still let it in. A Mac whose Node is not there, or not Ready for long, and
// that holds no token, is converged again with a fresh one: that is how a Node that was
// deleted comes back, or one whose certificate has expired, and the only way. A Mac that
// runs is changed by permit only, also when nobody remembers any more what it runs: all
// Nodes are silent while the API server is away, and a revision that is paused, halted
// or not tried yet must not reach all Macs by that. Such a Mac gets its token in its turn.
// A restart that is asked for does not wait for it.
func NextPush(s Snapshot, revision string, joinable bool, now time.Time) Push {
	lacking := s.Node == nil || s.nodeIsSilent(now)
	join := lacking && !s.Leaving() && !joinable
	switch {
	case s.Machine.Spec.ProviderID == "", s.Machine.Status.Applied.Agent == "" && lacking:
		return Push{Needed: true, Join: lacking}
	case join && s.Machine.Status.Applied.Revision == revision:
		return Push{Needed: true, Join: true}
	case s.RequestedRestart() != "":
		// A restart is mostly asked for because the Node is not well; its certificate may be why.
		// Without a Node the permit that the Mac holds may be used up.
		_, unready := s.UnreadySince()
		return Push{Needed: true, Join: s.Node == nil || unready && !joinable}
	case s.updatePermitted(revision):
		return Push{Update: true, Join: join}
	}
	return Push{}
}

// Freshness says whether the Mac is as its profile wants it, from what the status
// holds; what was told about a failure stays told while it stands.
func Freshness(m *infrav1.ScalewayAppleSiliconMachine, revision string) Finding {
	status := m.Status
	tried := status.Update.Revision == revision && status.Applied.Revision != revision
	mending := status.Update.Revision == revision && len(status.Drift.Steps) > 0
	failedAt, heldAt := ptr.Deref(status.Update.LastFailedAt, metav1.Time{}), ptr.Deref(status.Update.HeldAt, metav1.Time{})
	switch {
	case status.Applied.Revision == revision && len(status.Drift.Steps) == 0:
		return True(infrav1.UpToDateCondition)
	case (tried || mending) && !heldAt.IsZero() && heldAt.After(failedAt.Time):
		return keepMessage(m, infrav1.ReasonHeld, "revision "+short(revision)+" is put off")
	case (tried || mending) && status.Update.Failures > 0:
		return keepMessage(m, infrav1.ReasonUpdateFailed, "revision "+short(revision)+" failed")
	case host.TakesOver(m) && status.Applied.Agent == "":
		return False(infrav1.ReasonLegacyMachine, "the Mac runs the first system's agent; it is taken over in its turn")
	case status.Applied.Revision != revision:
		return False(infrav1.ReasonDrifted, "the profile wants revision %.12s, and the Mac has %s; it waits for its turn", revision, short(status.Applied.Revision))
	}
	return False(infrav1.ReasonDrifted, "changed on the Mac since: %s; it waits for its turn", strings.Join(status.Drift.Steps, ", "))
}

// keepMessage keeps the message of a reason that was given before.
func keepMessage(m *infrav1.ScalewayAppleSiliconMachine, reason, otherwise string) Finding {
	if c := conditions.Get(m, infrav1.UpToDateCondition); c != nil && c.Reason == reason {
		return Finding{Status: c.Status, Reason: c.Reason, Message: c.Message}
	}
	return False(reason, "%s", otherwise)
}

func short(revision string) string {
	if revision == "" {
		return "an unknown one"
	}
	return revision[:min(12, len(revision))]
}

// UpdateCounted reports that the status has already what came of an update that began then:
// it was written, and the answer was lost. A revision is not begun again before the next
// minute, so that no try before this one can be meant.
func UpdateCounted(last infrav1.UpdateStatus, revision string, began time.Time) bool {
	second := began.Truncate(time.Second) // as finely as a status tells times
	since := func(at *metav1.Time) bool { return !rollout.Reachable(at, began).Before(second) }
	return last.Revision == revision && (since(last.LastFailedAt) || since(last.HeldAt))
}

// UpdateFailed is the status and the condition after an update that came to nothing.
// NothingSaid: that says nothing about the revision. Transient: it may pass by itself.
func UpdateFailed(last infrav1.UpdateStatus, revision, failed string, nothingSaid, transient bool, now metav1.Time) (infrav1.UpdateStatus, Finding) {
	next := infrav1.UpdateStatus{Revision: revision, ProvedAt: last.ProvedAt}
	if last.Revision == revision {
		next.Failures, next.LastFailedAt, next.HeldAt, next.RetriedAt = last.Failures, last.LastFailedAt, last.HeldAt, last.RetriedAt
	}
	switch {
	case nothingSaid:
		next.HeldAt = &now
		return next, False(infrav1.ReasonHeld, "revision %.12s is put off %s", revision, failed)
	case transient && next.Failures == 0 && next.RetriedAt == nil:
		next.RetriedAt, next.HeldAt = &now, &now
		return next, False(infrav1.ReasonHeld, "revision %.12s is put off %s; it is tried once more in %s before it counts as failed", revision, failed, rollout.HeldBackoff)
	}
	next.Failures++
	next.LastFailedAt = &now
	return next, False(infrav1.ReasonUpdateFailed, "revision %.12s failed %s", revision, failed)
}

// The back-off of pushes: doubled with each failure of the claim, up to a limit. A reboot
// begins it anew.
const (
	backoffBase  = 5 * time.Second
	backoffLimit = 5 * time.Minute
	// backoffWait: what is waited for may come at any time, and asking costs little.
	backoffWait = 30 * time.Second
	// backoffHuman: only a person can mend it; now and then we look whether one has.
	backoffHuman = 30 * time.Minute
)

// Backoff is how long to wait after the given number of failures in a row. A jitter of up
// to a quarter, fixed for the Machine and attempt, keeps a fleet apart.
func Backoff(class document.Class, attempts int32, key types.NamespacedName) time.Duration {
	wait := backoffLimit
	if shift := attempts - 1; shift >= 0 && shift < 6 {
		wait = backoffBase << shift
	}
	switch class {
	case document.Wait:
		wait = backoffWait
	case document.Human:
		wait = backoffHuman
	}
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s/%d", key, attempts)
	return wait + time.Duration(hash.Sum32()%256)*wait/1024
}

// RetryAfter is when a check that failed is made again: after a twelfth of the
// interval, and not at once.
func RetryAfter(interval time.Duration) time.Duration { return max(interval/12, 5*time.Second) }

// CheckDue is when the Mac is to be looked at next. Names spread Macs that were
// left at the same time over a quarter of the interval.
func CheckDue(m *infrav1.ScalewayAppleSiliconMachine, drift infrav1.DriftStatus, interval time.Duration) time.Time {
	last := rollout.Instant(drift.CheckedAt)
	if last.IsZero() {
		last = m.CreationTimestamp.Time
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(m.Namespace + "/" + m.Name)) // never fails
	return last.Add(interval - interval/1024*time.Duration(hash.Sum32()%256))
}
