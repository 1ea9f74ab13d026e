package remediation

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=list

// loadChecks reads the health checks that look at the Machine.
func (r *Reconciler) loadChecks(ctx context.Context, v *visit) error {
	checks := &clusterv1.MachineHealthCheckList{}
	if err := r.Reader.List(ctx, checks, client.InNamespace(v.owner.Namespace)); err != nil {
		return fmt.Errorf("listing MachineHealthChecks: %w", err)
	}
	v.checks = looking(checks.Items, v.owner)
	return nil
}

// looking are the health checks that look at the Machine.
func looking(checks []clusterv1.MachineHealthCheck, machine *clusterv1.Machine) []clusterv1.MachineHealthCheck {
	return slices.DeleteFunc(checks, func(check clusterv1.MachineHealthCheck) bool { return !looksAt(&check, machine) })
}

// unasked says why no health check asks for the remediation now, though it is there: core
// removes it only once a health check that acts calls the Machine healthy. To begin, in a
// later look than the first, takes what core needs to make one.
func (v *visit) unasked() string {
	begins := v.remediation.Status.Step == "" && conditions.Has(v.remediation, infrav1.RemediatedCondition)
	switch {
	case annotations.HasSkipRemediation(v.owner):
		return "the Machine is annotated " + clusterv1.MachineSkipRemediationAnnotation
	case len(v.checks) == 0:
		return "no health check selects the Machine"
	case !slices.ContainsFunc(v.checks, runs):
		return "its health check is paused"
	case begins && conditions.IsTrue(v.owner, clusterv1.MachineHealthCheckSucceededCondition):
		return "its health check does not call the Machine unhealthy"
	case begins && !slices.ContainsFunc(v.checks, mayAct):
		return "its health check finds too many Machines unhealthy, and does nothing"
	}
	return ""
}

// runs: nobody has paused the health check.
func runs(check clusterv1.MachineHealthCheck) bool { return !annotations.HasPaused(&check) }

// mayAct: core has not said that the health check does nothing at present.
func mayAct(check clusterv1.MachineHealthCheck) bool {
	return runs(check) && !conditions.IsFalse(&check, clusterv1.MachineHealthCheckRemediationAllowedCondition)
}

// startupTime is the longest that one of the health checks gives a Machine to become a Node;
// 0: none of them counts it.
func startupTime(checks []clusterv1.MachineHealthCheck) time.Duration {
	var longest time.Duration
	for i := range checks {
		seconds := ptr.Deref(checks[i].Spec.Checks.NodeStartupTimeoutSeconds, clusterv1.DefaultNodeStartupTimeoutSeconds)
		longest = max(longest, time.Duration(seconds)*time.Second)
	}
	return longest
}

// complaint is the first condition of the Node or the Machine that one of the health checks
// calls unhealthy, in words; empty: there is none. For how long it was so is core's to
// judge, which has asked for the remediation.
func complaint(checks []clusterv1.MachineHealthCheck, machine *clusterv1.Machine, node *corev1.Node) string {
	for i := range checks {
		check := &checks[i]
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
