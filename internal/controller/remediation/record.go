package remediation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// patch writes metadata, under the version that was read.
func (r *Reconciler) patch(ctx context.Context, remediation, before *infrav1.ScalewayAppleSiliconRemediation) error {
	err := r.Client.Patch(ctx, remediation, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("recording the finalizer: %w", err)
	}
	return nil
}

// record writes the status in one patch, if it differs, and tells of a transition.
func (r *Reconciler) record(ctx context.Context, v *visit, next host.RemediationStep) error {
	derive(v, next)
	now := v.remediation
	if equality.Semantic.DeepEqual(v.before.Status, now.Status) {
		return nil
	}
	reason, message := next.Reason, conditions.GetMessage(now, infrav1.RemediatedCondition)
	was := conditions.GetReason(v.before, infrav1.RemediatedCondition)
	err := r.Client.Status().Patch(ctx, now, client.MergeFromWithOptions(v.before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("recording the status: %w", err)
	}
	if was != reason {
		r.tell(ctx, v, reason, message)
	}
	return nil
}

func derive(v *visit, next host.RemediationStep) {
	status := &v.remediation.Status
	if status.Step != "" && next.Step == "" {
		status.Round++
	}
	status.Step, status.StepStartedAt = next.Step, nil
	if !next.Since.IsZero() {
		status.StepStartedAt = startOf(v, next)
	}
	c := metav1.Condition{Type: infrav1.RemediatedCondition, Status: metav1.ConditionFalse, Reason: next.Reason, Message: next.Message}
	if next.Reason == infrav1.ReasonRecovered {
		c.Status = metav1.ConditionTrue
	} else {
		c.Message += v.diagnosis()
	}
	conditions.Set(v.remediation, c)
}

// startOf keeps the time that is recorded, so that a look at the same step writes nothing.
func startOf(v *visit, next host.RemediationStep) *metav1.MicroTime {
	known := v.before.Status.StepStartedAt
	if known != nil && (v.before.Status.Step == next.Step && next.Step == infrav1.ReasonExhausted || known.Time.Equal(next.Since)) {
		return known
	}
	at := metav1.NewMicroTime(next.Since)
	return &at
}

// tell emits one event and one log line.
func (r *Reconciler) tell(ctx context.Context, v *visit, reason, message string) {
	kind := corev1.EventTypeNormal
	if reason == infrav1.ReasonExhausted || reason == infrav1.ReasonHeld {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(v.remediation, v.owner, kind, reason, "Remediate", "%s", host.Bounded(message, host.MostNote))
	ctrl.LoggerFrom(ctx).Info("Remediation", "machine", v.owner.Name, "reason", reason, "message", message)
}
