package machine

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/rollout"
)

// updatePrefix starts the ids of pushes that change a Mac in its turn.
const updatePrefix = "update-"

// myTurn reports that the profile controller lets this Mac be changed to the
// revision, and that there is something to change or to mend.
func (v *visit) myTurn(revision string) bool {
	turn := v.machine.Annotations[infrav1.UpdateAnnotation]
	return turn == revision && !v.leaving() && (v.machine.Status.Applied.Revision != revision || v.drifted())
}

// drifted reports that a check found the Mac changed behind our back.
func (v *visit) drifted() bool { return len(v.machine.Status.Drift.Steps) > 0 }

// updateID names the push of a turn by its inputs. A Mac that is mended twice is
// pushed to twice: when it was found drifted is one of them.
func updateID(v *visit, want document.Desired) string {
	id := updatePrefix + pushID(v, want)
	if at := v.machine.Status.Drift.CheckedAt; v.drifted() && at != nil {
		id += at.UTC().Format("-150405")
	}
	return id
}

// update changes a Mac that runs, because it is its turn. Its bootstrap stays
// done whatever becomes of this.
func (r *Reconciler) update(ctx context.Context, v *visit, want document.Desired) (ctrl.Result, error) {
	v.bootstrapped = yes(infrav1.BootstrappedCondition)
	if last := v.machine.Status.Update; last.Revision == document.Revision(want) {
		at := rollout.NotBefore(int(last.Failures), rollout.Instant(last.LastFailedAt), rollout.Instant(last.HeldAt))
		if now := r.Clock.Now(); now.Before(at) {
			return after(now, at), nil
		}
	}
	if result, hold := r.awaitReboot(v); hold {
		return result, nil
	}
	v.upToDate = no(infrav1.ReasonUpdating, "%s", stepQueued)
	if v.forgetApplied(want) {
		return soon(), nil
	}
	return ctrl.Result{}, r.begin(ctx, v, want, updateID(v, want), v.takingOver())
}

// forgetApplied says, before a Mac is pushed to another revision, that it is at none:
// it may stop anywhere between the two, and if the former one is wanted again it is
// not there any more. True: this is to be written down before anything else is done.
func (v *visit) forgetApplied(want document.Desired) bool {
	applied := v.machine.Status.Applied
	if applied.Revision == "" || applied.Revision == document.Revision(want) {
		return false
	}
	applied.Revision = ""
	v.applied = &applied
	return true
}

// soon comes back after what was found is written down.
func soon() ctrl.Result { return ctrl.Result{RequeueAfter: time.Millisecond} }

// updateFailed records that a turn came to nothing. The job is forgotten once that
// is written, so that each is counted once.
func (r *Reconciler) updateFailed(ctx context.Context, v *visit, want document.Desired, err error) {
	failure := asFailure(stepConverge, err)
	revision, now := document.Revision(want), metav1.NewTime(r.Clock.Now())
	last := v.machine.Status.Update
	next := infrav1.UpdateStatus{Revision: revision, ProvedAt: last.ProvedAt}
	if last.Revision == revision {
		next.Failures, next.LastFailedAt, next.HeldAt = last.Failures, last.LastFailedAt, last.HeldAt
	}
	reason, verb := infrav1.ReasonUpdateFailed, "failed"
	if puttingOff(failure) {
		next.HeldAt = &now
		reason, verb = infrav1.ReasonHeld, "is put off"
	} else {
		next.Failures++
		next.LastFailedAt = &now
	}
	message := strings.ReplaceAll(failure.Err.Error(), "\n", " ")
	v.update = &next
	v.upToDate = no(reason, "revision %.12s %s at step %s (%s): %s", revision, verb, failure.Step, failure.Class, message)
	v.bootstrapped = yes(infrav1.BootstrappedCondition)
	v.consumed = append(v.consumed, r.pushes)
	r.metrics.failure(failure)
	ctrl.LoggerFrom(ctx).Info("Update came to nothing", "host", v.host.Name, "reason", reason, "step", failure.Step, "class", failure.Class, "failures", next.Failures, "error", message)
}

// puttingOff tells what says nothing about a revision: something that is waited
// for, or a Mac that was not reached or not let in. The steps on the Mac itself
// have names of their own.
func puttingOff(failure *Failure) bool {
	if failure.Class == document.Wait {
		return true
	}
	return failure.Step != stepConverge && failure.Step != stepReboot && slices.Contains(pushSteps(), failure.Step)
}

// freshness says whether the Mac is as its profile wants it, from what the status
// holds; what was told about a failure stays told while it stands.
func freshness(m *infrav1.ScalewayAppleSiliconMachine, revision string) finding {
	status := m.Status
	tried := status.Update.Revision == revision && status.Applied.Revision != revision
	mending := status.Update.Revision == revision && len(status.Drift.Steps) > 0
	failedAt, heldAt := ptr.Deref(status.Update.LastFailedAt, metav1.Time{}), ptr.Deref(status.Update.HeldAt, metav1.Time{})
	switch {
	case status.Applied.Revision == revision && len(status.Drift.Steps) == 0:
		return yes(infrav1.UpToDateCondition)
	case (tried || mending) && !heldAt.IsZero() && heldAt.After(failedAt.Time):
		return retold(m, infrav1.ReasonHeld, "revision "+short(revision)+" is put off")
	case (tried || mending) && status.Update.Failures > 0:
		return retold(m, infrav1.ReasonUpdateFailed, "revision "+short(revision)+" failed")
	case host.TakesOver(m) && status.Applied.Agent == "":
		return no(infrav1.ReasonLegacyMachine, "the Mac runs the first system's agent; it is taken over in its turn")
	case status.Applied.Revision != revision:
		return no(infrav1.ReasonDrifted, "the profile wants revision %.12s, and the Mac has %s; it waits for its turn", revision, short(status.Applied.Revision))
	}
	return no(infrav1.ReasonDrifted, "changed on the Mac since: %s; it waits for its turn", strings.Join(status.Drift.Steps, ", "))
}

// retold keeps the message of a reason that was given before.
func retold(m *infrav1.ScalewayAppleSiliconMachine, reason, otherwise string) finding {
	if c := conditions.Get(m, infrav1.UpToDateCondition); c != nil && c.Reason == reason {
		return finding{status: c.Status, reason: c.Reason, message: c.Message}
	}
	return no(reason, "%s", otherwise)
}

func short(revision string) string {
	if revision == "" {
		return "an unknown one"
	}
	return revision[:min(12, len(revision))]
}

// finish forgets the jobs whose outcome is written down now.
func (r *Reconciler) finish(v *visit) {
	for _, pool := range v.consumed {
		pool.forget(client.ObjectKeyFromObject(v.machine))
	}
}
