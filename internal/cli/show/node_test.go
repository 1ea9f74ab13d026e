package show

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// A Mac under pressure takes no Pods, and its own object says Running.
func TestStatusTellsOfNodesUnderPressure(t *testing.T) {
	const full = "* Node.DiskPressure: less than 15 % of the volume of VMs is free\n* Node.PIDPressure: few are left"
	short := clitest.Condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionFalse, clusterv1.MachineNodeNotHealthyReason, full, 14*time.Minute)
	for name, c := range map[string]struct {
		machine        int
		healthy        metav1.Condition
		deleting       bool
		waits, persons int
	}{
		"well":        {machine: 0, healthy: clitest.Condition(short.Type, metav1.ConditionTrue, clusterv1.MachineNodeHealthyReason, "", time.Hour)},
		"for a while": {machine: 0, healthy: short, waits: 1},
		"for long":    {machine: 0, healthy: clitest.Condition(short.Type, short.Status, short.Reason, full, 15*time.Minute), persons: 1},
		"not known":   {machine: 0, healthy: clitest.Condition(short.Type, metav1.ConditionUnknown, clusterv1.MachineNodeHealthUnknownReason, "", time.Hour)},
		"its Node is gone, which its own object tells":     {machine: 0, healthy: clitest.Condition(short.Type, short.Status, clusterv1.MachineNodeDeletedReason, "", time.Hour)},
		"its change failed, which tells less":              {machine: 1, healthy: short, waits: 1},
		"it is being set up, which tells more":             {machine: 2, healthy: short},
		"it is drained, which takes its Node away in time": {machine: 0, healthy: short, deleting: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.Fleet()
			m := &s.Machines[c.machine]
			core := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
			core.Status.Conditions = []metav1.Condition{c.healthy}
			if c.deleting {
				at := clitest.Ago(time.Minute)
				core.DeletionTimestamp = &at
			}
			s.CoreMachines = []clusterv1.Machine{core}
			if told := strings.Contains(whyNot(s, m), short.Reason+": Node.DiskPressure: "); told != (c.waits+c.persons > 0) {
				t.Errorf("the table of Machines says %q", whyNot(s, m))
			}
			status := StatusOf(s, reasons.Read())
			waits, persons := unhealthyNodes(status.Waits), unhealthyNodes(status.Person)
			if len(waits) != c.waits || len(persons) != c.persons {
				t.Fatalf("waits %v, needs a person %v; want %d and %d", waits, persons, c.waits, c.persons)
			}
			for _, i := range append(waits, persons...) {
				want := Item{
					Kind: "machine", Namespace: m.Namespace, Name: m.Name, Reason: short.Reason, Since: &c.healthy.LastTransitionTime.Time,
					Message: "Node.DiskPressure: less than 15 % of the volume of VMs is free\nNode.PIDPressure: few are left",
					Command: "macfleet explain machine " + m.Name + " -n " + m.Namespace,
				}
				if diff := cmp.Diff(want, i); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	if nodeFindings(&snapshot.Snapshot{At: clitest.Now(), Machines: clitest.Fleet().Machines}, reasons.Read()) != nil {
		t.Error("tells of Nodes where Cluster API's Machines cannot be read")
	}
}

// A Mac that waits for its turn, or has drifted, may be full all the same.
func TestPressureIsNotHiddenByAChangeThatWaits(t *testing.T) {
	full := clitest.Condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionFalse, clusterv1.MachineNodeNotHealthyReason, "* Node.DiskPressure: full", time.Hour)
	for reason, hidden := range map[string]bool{infrav1.ReasonDrifted: false, infrav1.ReasonHeld: false, infrav1.ReasonNodeUnreachable: true} {
		kind := infrav1.UpToDateCondition
		if hidden {
			kind = infrav1.NodeReadyCondition
		}
		m := clitest.Machine(1, "Running", clitest.Condition(kind, metav1.ConditionFalse, reason, "", time.Hour))
		core := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
		core.Status.Conditions = []metav1.Condition{full}
		s := &snapshot.Snapshot{At: clitest.Now(), Machines: []infrav1.ScalewayAppleSiliconMachine{m}, CoreMachines: []clusterv1.Machine{core}}
		want := reason
		if !hidden {
			want += "; NodeNotHealthy: Node.DiskPressure: full"
		}
		if got := whyNot(s, &m); got != want {
			t.Errorf("the table of Machines says %q, want %q", got, want)
		}
		if told := unhealthyNodes(StatusOf(s, reasons.Read()).Person); len(told) == 0 != hidden {
			t.Errorf("%s: status tells %v", reason, told)
		}
	}
}

func unhealthyNodes(items []Item) []Item {
	var found []Item
	for _, i := range items {
		if i.Reason == clusterv1.MachineNodeNotHealthyReason {
			found = append(found, i)
		}
	}
	return found
}
