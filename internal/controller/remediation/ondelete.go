package remediation

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets;machinedeployments,verbs=get

// awaitsDeletion reports that the Machine was given up, and that its MachineSet leaves it to
// a roll-out which replaces only what somebody deletes: core remediates no Machine of an
// earlier template. With RollingUpdate the roll-out comes to it by itself.
func (r *Reconciler) awaitsDeletion(ctx context.Context, v *visit) (bool, error) {
	c := conditions.Get(v.owner, clusterv1.MachineOwnerRemediatedCondition)
	if v.remediation.Status.Step != infrav1.ReasonExhausted || c == nil || c.Status != metav1.ConditionFalse ||
		c.Reason != clusterv1.MachineSetMachineCannotBeRemediatedReason {
		return false, nil
	}
	set, err := controllerOf(ctx, r.Reader, v.owner, "MachineSet", &clusterv1.MachineSet{})
	if err != nil || set == nil {
		return false, err
	}
	deployment, err := controllerOf(ctx, r.Reader, set, "MachineDeployment", &clusterv1.MachineDeployment{})
	if err != nil || deployment == nil {
		return false, err
	}
	return deployment.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType, nil
}

// controllerOf reads the object of core's that controls another, if it is of that kind.
func controllerOf[T client.Object](ctx context.Context, reader client.Reader, controlled client.Object, kind string, into T) (T, error) {
	var none T
	ref := metav1.GetControllerOf(controlled)
	if ref == nil || ref.Kind != kind || !isClusterAPI(ref.APIVersion) {
		return none, nil
	}
	return get(ctx, reader, client.ObjectKey{Namespace: controlled.GetNamespace(), Name: ref.Name}, into)
}
