package explain

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// FindNoInfrastructure finds a Machine of Cluster API that stands for no Mac, by its whole name; nil: there
// is none.
func FindNoInfrastructure(s *snapshot.Snapshot, name string) *clusterv1.Machine {
	c, err := FindExactly(s.CoreMachines, "machine", name)
	if err != nil || show.NoInfrastructure(s, c) == nil {
		return nil
	}
	return c
}

// NoInfrastructure tells the story of a Machine of Cluster API that stands for no Mac.
func NoInfrastructure(s *snapshot.Snapshot, book reasons.Book, c *clusterv1.Machine) Story {
	t := newTeller(s, book, "machine", c)
	t.names["MACHINE"] = c.Name
	t.is("a Machine of Cluster API, which has no Mac")
	if fleet := c.Labels[clusterv1.MachineDeploymentNameLabel]; fleet != "" {
		t.is("of the fleet %s, which is one Mac short until it goes", fleet)
	}
	if left := show.NoInfrastructure(s, c); left != nil {
		t.condition("", *left, next{})
	}
	return *t.story
}
