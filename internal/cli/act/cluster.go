package act

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/machine"
)

// Cluster is a Cluster with what it has.
type Cluster struct {
	*clusterv1.Cluster
	Machines []*infrav1.ScalewayAppleSiliconMachine
	// ControlPlane is the one that it names, Checks are its health checks that run, and Paused
	// those that are paused, where these were read.
	ControlPlane   *controlplanev1.ExternalControlPlane
	Checks, Paused []*clusterv1.MachineHealthCheck
}

// ClusterOf finds what a Cluster has.
func ClusterOf(s *snapshot.Snapshot, c *clusterv1.Cluster) Cluster {
	of := Cluster{Cluster: c}
	for i := range s.Machines {
		if m := &s.Machines[i]; m.Namespace == c.Namespace && machine.ClusterName(m) == c.Name {
			of.Machines = append(of.Machines, m)
		}
	}
	for i := range s.ControlPlanes {
		if p := &s.ControlPlanes[i]; p.Namespace == c.Namespace && p.Name == c.Spec.ControlPlaneRef.Name {
			of.ControlPlane = p
		}
	}
	for i := range s.HealthChecks {
		switch h := &s.HealthChecks[i]; {
		case h.Namespace != c.Namespace || h.Spec.ClusterName != c.Name:
		case annotations.HasPaused(h):
			of.Paused = append(of.Paused, h)
		default:
			of.Checks = append(of.Checks, h)
		}
	}
	return of
}

func (c Cluster) name() string { return c.Namespace + "/" + c.Name }

// PauseCluster pauses all that is done for a Cluster, or lets it go on.
type PauseCluster struct{ Resume bool }

// Plan is for a Cluster, with its Machines.
func (a PauseCluster) Plan(c Cluster) (Plan, error) {
	leaving := slices.DeleteFunc(slices.Clone(c.Machines), func(m *infrav1.ScalewayAppleSiliconMachine) bool { return m.DeletionTimestamp.IsZero() })
	var p Plan
	switch paused := ptr.Deref(c.Spec.Paused, false); {
	case a.Resume && !paused:
		return Plan{}, fmt.Errorf("Cluster %s is not paused", c.name())
	case !a.Resume && paused:
		return Plan{}, fmt.Errorf("Cluster %s is paused already", c.name())
	case a.Resume:
		p.say("Cluster %s goes on, with its Machines (%d): setup, rollouts, mending, health checks and recovery", c.name(), len(c.Machines))
		if len(leaving) > 0 {
			p.say("deletions that waited go on, and release their Macs (%d): %s", len(leaving), named(namesOf(leaving)))
		}
	default:
		p.say("Cluster %s is paused until somebody resumes it, with all of its Machines (%d): no Mac is claimed, ordered, set up, changed, mended, remediated, rebooted or released for them", c.name(), len(c.Machines))
		p.say("guests run on; a host whose release is recorded is wiped all the same, and a person's forced reboot is made")
		if len(leaving) > 0 {
			p.say("deletions that are under way wait (%d): %s", len(leaving), named(namesOf(leaving)))
		}
	}
	p.patch(c.Cluster, spec(map[string]any{"paused": !a.Resume}))
	return p, nil
}

// Rejoin has the Macs of a Cluster that was moved or restored join the cluster that it is in now.
type Rejoin struct {
	// Here is the UID of this cluster's namespace kube-system.
	Here string
	// End ends the pause of its health checks, once its Macs have joined.
	End bool
	// Ready says of each Node whether it is, where Nodes may be read. A Machine that is paused
	// does not know it.
	Ready map[string]bool
}

// Plan is for a Cluster whose ExternalControlPlane names another cluster, or did.
func (a Rejoin) Plan(c Cluster) (Plan, error) {
	at := c.ControlPlane
	switch {
	case a.End:
		return a.end(c)
	case at == nil:
		return Plan{}, fmt.Errorf("the ExternalControlPlane of Cluster %s is not to be seen", c.name())
	case at.Spec.ClusterID == "":
		return Plan{}, fmt.Errorf("the Macs of Cluster %s join this cluster already: its ExternalControlPlane names no other", c.name())
	case at.Spec.ClusterID == a.Here:
		return Plan{}, fmt.Errorf("the Macs of Cluster %s join this cluster already: its ExternalControlPlane names it", c.name())
	}
	var p Plan
	p.say("ExternalControlPlane %s/%s names this cluster in place of %s at %s", at.Namespace, at.Name, at.Spec.ClusterID, at.Spec.ControlPlaneEndpoint.Host)
	p.say("the Macs of its Machines (%d) leave that cluster and join this one, which ends the guests that run on them for it: drain them there first", len(c.Machines))
	if len(c.Checks) > 0 {
		for _, check := range c.Checks {
			p.patch(check, annotation(clusterv1.PausedAnnotation, "true"))
		}
		p.say("its health checks are paused, which would miss all Nodes (%d): %s; when all Machines run, end that with: macfleet cluster rejoin %s -n %s --end",
			len(c.Checks), checksOf(c.Checks), c.Name, c.Namespace)
	}
	p.say("Cluster API core speaks to the other cluster until you start it anew: kubectl -n capi-system rollout restart deployment capi-controller-manager")
	p.patch(at, spec(map[string]any{"clusterID": nil, "controlPlaneEndpoint": nil}))
	return p, nil
}

// end has the health checks go on.
func (a Rejoin) end(c Cluster) (Plan, error) {
	at := c.ControlPlane
	switch {
	case at != nil && at.Spec.ClusterID != "" && at.Spec.ClusterID != a.Here:
		return Plan{}, fmt.Errorf("the Macs of Cluster %s are to join another cluster still, and its health checks would miss all Nodes: macfleet cluster rejoin %s -n %s", c.name(), c.Name, c.Namespace)
	case len(c.Paused) == 0:
		return Plan{}, fmt.Errorf("no health check of Cluster %s is paused by an annotation of its own", c.name())
	}
	var p Plan
	p.say("the health checks of Cluster %s that are paused go on, whoever paused them (%d): %s", c.name(), len(c.Paused), checksOf(c.Paused))
	unwell := slices.DeleteFunc(slices.Clone(c.Machines), func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		if a.Ready != nil {
			return a.Ready[m.Name]
		}
		return meta.IsStatusConditionTrue(m.Status.Conditions, infrav1.NodeReadyCondition)
	})
	if len(unwell) > 0 {
		p.say("Machines without a Ready Node, which they may give up (%d): %s", len(unwell), named(namesOf(unwell)))
	}
	for _, check := range c.Paused {
		p.patch(check, map[string]any{"metadata": map[string]any{"annotations": map[string]any{clusterv1.PausedAnnotation: nil}}})
	}
	return p, nil
}

func checksOf(checks []*clusterv1.MachineHealthCheck) string {
	names := make([]string, 0, len(checks))
	for _, check := range checks {
		names = append(names, check.Name)
	}
	return named(names)
}
