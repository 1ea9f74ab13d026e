package remediation

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// act asks for what the step needs. Everything is asked for under the version that
// was read, and can be asked for again.
func (r *Reconciler) act(ctx context.Context, v *visit, next host.RemediationStep) error {
	switch next.Reason {
	case infrav1.ReasonRestartingAgent:
		return r.restartAgent(ctx, v)
	case infrav1.ReasonRebooting:
		return r.reboot(ctx, v, next.Failure)
	case infrav1.ReasonExhausted:
		if next.Delete {
			return r.deleteMachine(ctx, v)
		}
		return r.requestReplacement(ctx, v, next.Message)
	case infrav1.ReasonRecovered, infrav1.ReasonDiagnosing:
		return r.withdraw(ctx, v)
	}
	return nil
}

func (r *Reconciler) restartAgent(ctx context.Context, v *visit) error {
	if v.machine.Annotations[infrav1.RestartAgentAnnotation] == v.id() {
		return nil
	}
	return r.annotate(ctx, v, func(annotations map[string]string) { annotations[infrav1.RestartAgentAnnotation] = v.id() })
}

func (r *Reconciler) annotate(ctx context.Context, v *visit, change func(map[string]string)) error {
	before := v.machine.DeepCopy()
	if v.machine.Annotations == nil {
		v.machine.Annotations = map[string]string{}
	}
	change(v.machine.Annotations)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, v.machine, patch); err != nil {
		return fmt.Errorf("asking for a restart of the agent: %w", err)
	}
	return nil
}

// reboot asks for one power cut. Without spec.reboot.force: a Node that comes back meanwhile
// keeps its Pods. A Node that is Ready and of which a health check complains has Pods that
// would hold the reboot up until the Machine is given up, so that force is needed there.
// Somebody else's request is left to be met first. The reason stays what it was when the
// reboot was asked for, whatever the Node says since.
func (r *Reconciler) reboot(ctx context.Context, v *visit, failure string) error {
	reason := host.RebootReason("remediation of Machine " + v.owner.Name + ": " + failure)
	want := infrav1.RebootRequest{ID: v.rebootID(), Reason: reason, Force: v.complaint != ""}
	asked := v.host.Spec.Reboot
	if asked != nil && asked.ID == want.ID {
		want.Reason = asked.Reason
	}
	if v.host.Status.LastReboot.ID == want.ID || asked != nil && (*asked == want || !v.awaitsReboot()) {
		return nil
	}
	v.host.Spec.Reboot = &want
	host.RecordDisruption(v.host, r.Clock.Now())
	return r.updateHost(ctx, v, "asking for a reboot")
}

// updateHost writes the host as it was read, with our claim on it: the version
// that goes along makes the claim's token hold at the moment of the write.
func (r *Reconciler) updateHost(ctx context.Context, v *visit, doing string) error {
	if err := r.Client.Update(ctx, v.host); err != nil {
		return fmt.Errorf("%s of host %s: %w", doing, v.host.Name, err)
	}
	return nil
}

// requestReplacement tells the Machine's owner to replace it, once. The host is disturbed: its
// next step is a wipe.
func (r *Reconciler) requestReplacement(ctx context.Context, v *visit, why string) error {
	if err := r.withdrawReboot(ctx, v); err != nil {
		return err
	}
	if conditions.IsFalse(v.owner, clusterv1.MachineOwnerRemediatedCondition) {
		return nil // the owner says from here on how far it is
	}
	if err := r.recordWipe(ctx, v); err != nil {
		return err
	}
	before := v.owner.DeepCopy()
	conditions.Set(v.owner, metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, Message: why,
	})
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, v.owner, patch); err != nil {
		return fmt.Errorf("giving up Machine %s: %w", v.owner.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Machine given up", "machine", v.owner.Name, "why", why)
	return nil
}

// recordWipe tells the storm guard of the wipe that follows, and the host that its claim came to
// nothing, unless a person just wanted another Mac.
func (r *Reconciler) recordWipe(ctx context.Context, v *visit) error {
	if v.host == nil || !v.disturbable() {
		return nil
	}
	host.RecordDisruption(v.host, r.Clock.Now())
	if !annotations.HasRemediateMachine(v.owner) {
		host.RecordGivenUp(v.host, v.bringup(), r.Clock.Now())
	}
	return r.updateHost(ctx, v, "noting the coming wipe")
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=delete

// deleteMachine does what the owner of a Machine that was given up waits for, to the Machine
// that was read and to no later version of it.
func (r *Reconciler) deleteMachine(ctx context.Context, v *visit) error {
	if err := r.recordWipe(ctx, v); err != nil {
		return err
	}
	as := client.Preconditions{UID: &v.owner.UID, ResourceVersion: &v.owner.ResourceVersion}
	if err := r.Client.Delete(ctx, v.owner, as); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("deleting Machine %s, which was given up: %w", v.owner.Name, err))
	}
	ctrl.LoggerFrom(ctx).Info("Machine deleted", "machine", v.owner.Name, "why", "it was given up, and its MachineDeployment rolls out with OnDelete")
	return nil
}

func (v *visit) disturbable() bool {
	return v.machine != nil && host.HoldsClaim(v.host, v.machine) && v.host.Spec.Release == nil && !v.gone()
}

// withdraw takes back what was asked for and not done: the Node is well, or this
// remediation is over.
func (r *Reconciler) withdraw(ctx context.Context, v *visit) error {
	if v.machine != nil && v.machine.DeletionTimestamp.IsZero() && v.awaitsRestart() {
		err := r.annotate(ctx, v, func(annotations map[string]string) { delete(annotations, infrav1.RestartAgentAnnotation) })
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return client.IgnoreNotFound(r.withdrawReboot(ctx, v))
}

func (r *Reconciler) withdrawReboot(ctx context.Context, v *visit) error {
	if v.host == nil || !v.awaitsReboot() {
		return nil
	}
	v.host.Spec.Reboot = nil
	return r.updateHost(ctx, v, "taking back the reboot")
}
