package machine

import (
	"context"
	"hash/fnv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/rollout"
	"github.com/macfleet/macfleet/internal/workload"
)

// retryAfter is when a check that failed is made again: after a twelfth of the
// interval, and not at once.
func retryAfter(interval time.Duration) time.Duration { return max(interval/12, 5*time.Second) }

// stepCheck is the one step of a check, as people see it.
const stepCheck = "check"

// watchDrift looks now and then, and without changing anything, whether the Mac is
// still as it was left. What is found is recorded; mending it waits for the turn.
func (r *Reconciler) watchDrift(ctx context.Context, v *visit, want document.Desired) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(v.machine)
	current, running := r.checks.look(key)
	now := r.Clock.Now()
	switch {
	case r.DriftCheckInterval <= 0, v.leaving(), !v.shows(want), v.drifted(), v.node == nil, !workload.NodeReady(v.node):
		r.checks.cancel(key)
		r.checks.forget(key)
		return ctrl.Result{}, nil
	case running && !current.done:
		return ctrl.Result{}, nil
	case running && current.result == nil:
		return after(now, r.found(ctx, v, current.found)), nil
	case running && !current.recorded:
		ctrl.LoggerFrom(ctx).Info("The Mac could not be checked", "host", v.host.Name, "error", current.result.Error())
		again := now.Add(retryAfter(r.DriftCheckInterval))
		r.checks.setRecorded(key, again)
		return after(now, again), nil
	}
	due := checkDue(v.machine, v.machine.Status.Drift, r.DriftCheckInterval)
	if running && current.notBefore.After(due) {
		due = current.notBefore
	}
	if now.Before(due) {
		return after(now, due), nil
	}
	return ctrl.Result{}, r.beginCheck(ctx, v, want)
}

// checkDue is when the Mac is to be looked at next. Names spread Macs that were
// left at the same time over a quarter of the interval.
func checkDue(m *infrav1.ScalewayAppleSiliconMachine, drift infrav1.DriftStatus, interval time.Duration) time.Time {
	last := rollout.Instant(drift.CheckedAt)
	if last.IsZero() {
		last = m.CreationTimestamp.Time
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(m.Namespace + "/" + m.Name)) // never fails
	return last.Add(interval - interval/1024*time.Duration(hash.Sum32()%256))
}

// found records what a check has seen, and tells when the next is due. Whoever waits
// for the record alone may wait for ever: where it is what a check of the same second
// wrote, nothing is written, and nothing wakes.
func (r *Reconciler) found(ctx context.Context, v *visit, steps []string) time.Time {
	now := metav1.NewTime(r.Clock.Now())
	v.drift = &infrav1.DriftStatus{CheckedAt: &now, Steps: steps}
	v.consumed = append(v.consumed, r.checks)
	if len(steps) > 0 {
		ctrl.LoggerFrom(ctx).Info("The Mac has drifted", "host", v.host.Name, "steps", steps)
	}
	return checkDue(v.machine, *v.drift, r.DriftCheckInterval)
}

// beginCheck starts the check as a job, beside the pushes and as one of them.
func (r *Reconciler) beginCheck(ctx context.Context, v *visit, want document.Desired) error {
	secret, err := r.readFleetKey(ctx, v.fleetSecret())
	if err != nil {
		return err
	}
	if err := r.register(ctx, v, secret); err != nil {
		return err
	}
	want.SSHKeys = secret.publics()
	key, target := client.ObjectKeyFromObject(v.machine), r.target(v, secret)
	if target.Pin == nil {
		return nil // who answers cannot be told; the next push pins it
	}
	r.checks.begin(key, stepCheck, func(ctx context.Context, say func(string)) error {
		say(stepCheck)
		steps, err := r.plan(ctx, target, want)
		r.checks.setFound(key, steps)
		return err
	})
	return nil
}

// plan asks the Mac what converge would change.
func (r *Reconciler) plan(ctx context.Context, target Target, want document.Desired) ([]string, error) {
	mac, err := r.Macs.Dial(ctx, target)
	if err != nil {
		return nil, err
	}
	defer mac.Close() //nolint:errcheck // it was only looked at
	report, err := mac.Plan(ctx, want)
	if steps := differing(report); len(steps) > 0 {
		return steps, nil
	}
	return nil, err
}

// differing are the steps that would change something, or that cannot even tell.
// What only waits for its time is as it should be for now.
func differing(report document.Report) []string {
	var steps []string
	for _, step := range report.Steps {
		failed := step.Outcome == document.Failed && step.Class != document.Wait && step.Class != document.Retry
		if step.Outcome == document.Planned || failed {
			steps = append(steps, step.Name)
		}
	}
	return steps
}
