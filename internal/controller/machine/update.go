package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/fleetsecret"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/rollout"
	"github.com/macfleet/macfleet/internal/workload"
)

// updatePrefix starts the ids of pushes that change a Mac by its update permit.
const updatePrefix = "update-"

// updateID names the push of an update permit by its inputs. A Mac that is mended twice is
// pushed to twice: when it was found drifted is one of them.
func updateID(v *visit, want document.Desired) string {
	id := updatePrefix + pushID(v, want)
	if at := v.Machine.Status.Drift.CheckedAt; v.Drifted() && at != nil {
		id += at.UTC().Format("-150405")
	}
	return id
}

// isUpdate reports that the job changes a Mac by its update permit.
func isUpdate(current job.Run) bool { return strings.HasPrefix(current.ID, updatePrefix) }

// updatePhase changes a Mac that runs, by its update permit.
type updatePhase struct {
	clock   clock.PassiveClock
	metrics *metrics
	pushes  *job.Pool
	starter *pushStarter
}

// update changes a Mac that runs, because its update permit allows it, and lets its Node join
// again where it has to. Its bootstrap stays done whatever becomes of this.
func (p *updatePhase) update(ctx context.Context, v *visit, want document.Desired, join bool) (ctrl.Result, error) {
	v.bootstrapped = machine.True(infrav1.BootstrappedCondition)
	if last := v.Machine.Status.Update; last.Revision == document.Revision(want) {
		now := p.clock.Now()
		at := rollout.NotBefore(int(last.Failures), rollout.Reachable(last.LastFailedAt, now), rollout.Reachable(last.HeldAt, now))
		if now.Before(at) {
			return after(now, at), nil
		}
	}
	if result, hold := p.starter.awaitReboot(v); hold {
		return result, nil
	}
	v.upToDate = machine.False(infrav1.ReasonUpdating, "%s", job.Queued)
	result, err := p.starter.beginPush(ctx, v, want, updateID(v, want), join || v.TakingOver())
	if failure, is := errors.AsType[*push.Failure](err); is {
		p.updateFailed(ctx, v, want, failure)
		return ctrl.Result{}, nil
	}
	return result, err
}

// clearAppliedRevision says, before a Mac is pushed to another revision, that it is at none:
// it may stop anywhere between the two, and if the former one is wanted again it is
// not there any more. True: this is to be written down before anything else is done.
func (v *visit) clearAppliedRevision(want document.Desired) bool {
	applied := v.Machine.Status.Applied
	if applied.Revision == "" || applied.Revision == document.Revision(want) {
		return false
	}
	applied.Revision = ""
	v.applied = &applied
	return true
}

// updateFailed records that an update came to nothing. The job is forgotten once that
// is written, so that each is counted once.
func (p *updatePhase) updateFailed(ctx context.Context, v *visit, want document.Desired, err error) {
	failure := push.AsFailure(push.StepConverge, err)
	failed := fmt.Sprintf("at step %s (%s): %s", failure.Step, failure.Class, failure.Line())
	at := metav1.NewTime(rollout.TriedAt(v.Machine, p.clock.Now()))
	next, told := machine.UpdateFailed(v.Machine.Status.Update, document.Revision(want), failed, failure.SaysNothingOfRevision(), failure.IsTransient(), at)
	v.update, v.upToDate = &next, told
	v.bootstrapped = machine.True(infrav1.BootstrappedCondition)
	v.consumed = append(v.consumed, p.pushes)
	p.metrics.failure(failure)
	ctrl.LoggerFrom(ctx).Info("Update came to nothing", "host", v.Host.Name, "reason", told.Reason, "step", failure.Step, "class", failure.Class, "failures", next.Failures, "error", told.Message)
}

// stepCheck is the one step of a check, as people see it.
const stepCheck = "check"

// driftPhase looks now and then whether a Mac is still as it was left.
type driftPhase struct {
	clock              clock.PassiveClock
	checks             *job.Pool
	driftCheckInterval time.Duration
	keys               *fleetsecret.Store
	pusher             *push.Pusher
	starter            *pushStarter
}

// checkDrift looks now and then, and without changing anything, whether the Mac is
// still as it was left. What is found is recorded; mending it waits for the update permit.
func (p *driftPhase) checkDrift(ctx context.Context, v *visit, want document.Desired) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(v.Machine)
	current, running := p.checks.Look(key)
	now := p.clock.Now()
	switch {
	case p.driftCheckInterval <= 0, v.Leaving(), !v.ShowsApplied(want), v.Drifted(), v.Node == nil, !workload.NodeReady(v.Node):
		p.checks.Cancel(key)
		p.checks.Forget(key)
		return ctrl.Result{}, nil
	case running && !current.Done:
		return ctrl.Result{}, nil
	case running && current.Result == nil:
		steps, _ := current.Found.([]string)
		return after(now, p.recordDrift(ctx, v, steps)), nil
	case running && !current.Recorded:
		ctrl.LoggerFrom(ctx).Info("The Mac could not be checked", "host", v.Host.Name, "error", current.Result.Error())
		again := now.Add(machine.RetryAfter(p.driftCheckInterval))
		p.checks.Note(key, func(run *job.Run) { run.Recorded, run.NotBefore = true, again })
		return after(now, again), nil
	}
	due := machine.CheckDue(v.Machine, v.Machine.Status.Drift, p.driftCheckInterval)
	if running && current.NotBefore.After(due) {
		due = current.NotBefore
	}
	if now.Before(due) {
		return after(now, due), nil
	}
	p.beginCheck(ctx, v, want)
	return ctrl.Result{}, nil
}

// recordDrift records what a check has seen, and tells when the next is due. Whoever waits
// for the record alone may wait for ever: where it is what a check of the same second
// wrote, nothing is written, and nothing wakes.
func (p *driftPhase) recordDrift(ctx context.Context, v *visit, steps []string) time.Time {
	now := metav1.NewTime(p.clock.Now())
	v.drift = &infrav1.DriftStatus{CheckedAt: &now, Steps: steps}
	v.consumed = append(v.consumed, p.checks)
	if len(steps) > 0 {
		ctrl.LoggerFrom(ctx).Info("The Mac has drifted", "host", v.Host.Name, "steps", steps)
	}
	return machine.CheckDue(v.Machine, *v.drift, p.driftCheckInterval)
}

// beginCheck starts the check as a job, beside the pushes and as one of them. Without the
// fleet's key it is a check that fails: all else about the Machine goes on.
func (p *driftPhase) beginCheck(ctx context.Context, v *visit, want document.Desired) {
	key, unreadable := p.keys.ReadSSH(ctx, v.fleetOf())
	want.SSHKeys = key.Publics()
	target := p.starter.target(v, key)
	if target.Pin == nil {
		return // who answers cannot be told; the next push pins it
	}
	p.checks.Begin(client.ObjectKeyFromObject(v.Machine), stepCheck, func(ctx context.Context, say func(string)) (any, error) {
		if unreadable != nil {
			return nil, unreadable
		}
		say(stepCheck)
		return p.pusher.Check(ctx, target, want)
	})
}
