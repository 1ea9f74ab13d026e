package remediation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/workload"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=list

// loadComplaint reads the health checks of a Machine whose Node is Ready: one may look at more.
func (r *Reconciler) loadComplaint(ctx context.Context, v *visit) error {
	if v.node == nil || !workload.NodeReady(v.node) {
		return nil
	}
	checks := &clusterv1.MachineHealthCheckList{}
	if err := r.Reader.List(ctx, checks, client.InNamespace(v.owner.Namespace)); err != nil {
		return fmt.Errorf("listing MachineHealthChecks: %w", err)
	}
	v.complaint = complaint(checks.Items, v.owner, v.node)
	return nil
}

// complaint is the first condition of the Node or the Machine that a health check of the
// Machine calls unhealthy, in words; empty: there is none. For how long it was so is core's to
// judge, which has asked for the remediation.
func complaint(checks []clusterv1.MachineHealthCheck, machine *clusterv1.Machine, node *corev1.Node) string {
	for i := range checks {
		check := &checks[i]
		if !looksAt(check, machine) {
			continue
		}
		for _, bad := range check.Spec.Checks.UnhealthyNodeConditions {
			for _, c := range node.Status.Conditions {
				if c.Type == bad.Type && c.Status == bad.Status {
					return fmt.Sprintf("the Node's condition %s is %s", c.Type, c.Status)
				}
			}
		}
		for _, bad := range check.Spec.Checks.UnhealthyMachineConditions {
			if c := conditions.Get(machine, bad.Type); c != nil && c.Status == bad.Status {
				return fmt.Sprintf("the Machine's condition %s is %s", c.Type, c.Status)
			}
		}
	}
	return ""
}

// looksAt: the health check selects the Machine.
func looksAt(check *clusterv1.MachineHealthCheck, machine *clusterv1.Machine) bool {
	selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
	return err == nil && !selector.Empty() && check.Spec.ClusterName == machine.Spec.ClusterName && selector.Matches(labels.Set(machine.Labels))
}
