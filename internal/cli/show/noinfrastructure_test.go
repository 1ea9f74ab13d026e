package show

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// A Machine of Cluster API whose own object of ours is gone needs a person.
func TestAMachineThatStandsForNoMac(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*snapshot.Snapshot, *clusterv1.Machine)
		told   bool
	}{
		"ours is gone":  {func(*snapshot.Snapshot, *clusterv1.Machine) {}, true},
		"ours is there": {func(s *snapshot.Snapshot, c *clusterv1.Machine) { c.Spec.InfrastructureRef.Name = s.Machines[0].Name }, false},
		"of another's namespace": {func(s *snapshot.Snapshot, c *clusterv1.Machine) {
			c.Namespace, c.Spec.InfrastructureRef.Name = "other", s.Machines[0].Name
		}, true},
		"another provider's":    {func(_ *snapshot.Snapshot, c *clusterv1.Machine) { c.Spec.InfrastructureRef.Kind = "DockerMachine" }, false},
		"it goes":               {func(_ *snapshot.Snapshot, c *clusterv1.Machine) { c.DeletionTimestamp = ptr.To(clitest.Ago(0)) }, false},
		"it was only just made": {func(_ *snapshot.Snapshot, c *clusterv1.Machine) { c.CreationTimestamp = clitest.Ago(time.Minute) }, false},
		"ours cannot be read": {func(s *snapshot.Snapshot, _ *clusterv1.Machine) {
			s.Machines, s.Missing = nil, []snapshot.Missing{{Kind: snapshot.Machines, Why: "no"}}
		}, false},
	} {
		s := clitest.Fleet()
		core := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: "left", CreationTimestamp: clitest.Ago(time.Hour)}}
		core.Spec.InfrastructureRef.Kind, core.Spec.InfrastructureRef.Name = "ScalewayAppleSiliconMachine", "left"
		core.Status.Conditions = []metav1.Condition{clitest.Condition(clusterv1.InfrastructureReadyCondition, metav1.ConditionFalse, "Gone", "", 7*time.Minute)}
		c.change(s, &core)
		s.CoreMachines = []clusterv1.Machine{core}
		var told *Item
		for _, item := range StatusOf(s, reasons.Read()).Person {
			if item.Reason == noInfrastructure {
				told = &item
			}
		}
		if (told != nil) != c.told {
			t.Errorf("%s: tells %+v", name, told)
		}
		if told != nil && (told.Command != "kubectl -n "+core.Namespace+" delete machine left" || !told.Since.Equal(clitest.Ago(7*time.Minute).Time)) {
			t.Errorf("%s: %+v", name, told)
		}
	}
}
