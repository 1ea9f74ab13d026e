package explain

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// ClusterKinds are what the stories of a cluster and of a control plane are told from.
func ClusterKinds() []snapshot.Kind {
	return []snapshot.Kind{snapshot.Zones, snapshot.ControlPlanes, snapshot.Clusters, snapshot.Machines, snapshot.Hosts, snapshot.Leases}
}

// Cluster tells the story of a ScalewayAppleSiliconCluster: how its manager and the vendor
// are, and its control plane.
func Cluster(s *snapshot.Snapshot, book reasons.Book, zone *infrav1.ScalewayAppleSiliconCluster) Story {
	t := newTeller(s, book, "cluster", zone)
	of := clusterOf(s, zone)
	if t.names["CLUSTER"] = show.ClusterName(zone); of != nil {
		t.names["CLUSTER"] = of.Name
	}
	t.clusterIs(zone)
	t.noManager(zone.Namespace)
	t.conditions("", zone.Status.Conditions)
	if of != nil {
		t.pauses(of.Name, zone, fmt.Sprintf("kubectl -n %s annotate sasc %s %s-", zone.Namespace, zone.Name, clusterv1.PausedAnnotation))
		for i := range s.ControlPlanes {
			if plane := &s.ControlPlanes[i]; plane.Namespace == of.Namespace && plane.Name == of.Spec.ControlPlaneRef.Name {
				t.unwell("controlplane "+plane.Name, plane.Status.Conditions)
			}
		}
	}
	return *t.story
}

// ControlPlane tells the story of an ExternalControlPlane.
func ControlPlane(s *snapshot.Snapshot, book reasons.Book, plane *controlplanev1.ExternalControlPlane) Story {
	t := newTeller(s, book, "controlplane", plane)
	t.names["CLUSTER"] = show.ClusterName(plane)
	t.is("the control plane whose nodes the Macs of a Cluster are; macfleet runs none")
	t.noManager(plane.Namespace)
	t.conditions("", plane.Status.Conditions)
	return *t.story
}

// clusterOf is Cluster API's Cluster that a ScalewayAppleSiliconCluster belongs to.
func clusterOf(s *snapshot.Snapshot, zone *infrav1.ScalewayAppleSiliconCluster) *clusterv1.Cluster {
	for i := range s.Clusters {
		if c := &s.Clusters[i]; c.Namespace == zone.Namespace && c.Spec.InfrastructureRef.Name == zone.Name {
			return c
		}
	}
	return nil
}

func (t *teller) clusterIs(zone *infrav1.ScalewayAppleSiliconCluster) {
	t.is("the vendor's side of a Cluster, in %s", strings.Join(zone.Spec.Zones, ", "))
	hosts := map[string]int{}
	for i := range t.s.Hosts {
		if t.s.Hosts[i].Spec.Order == nil { // an order is no Mac yet
			hosts[t.s.Hosts[i].Spec.Zone]++
		}
	}
	var counts []string
	for _, name := range zone.Spec.Zones {
		counts = append(counts, show.Count(hosts[name], "Mac")+" in "+name)
	}
	if len(counts) > 0 && t.s.Lacks(snapshot.Hosts) == "" {
		t.is("the inventory has %s, whosever they are", strings.Join(counts, ", "))
	}
	running, all := 0, 0
	for i := range t.s.Machines {
		if m := &t.s.Machines[i]; m.Namespace == zone.Namespace {
			all++
			if m.Status.Phase == "Running" {
				running++
			}
		}
	}
	t.is("%s in its namespace, %d Running", show.Count(all, "Machine"), running)
}

// conditions takes up those that are not well, or Ready where all are.
func (t *teller) conditions(about string, conditions []metav1.Condition) {
	if t.unwell(about, conditions) > 0 {
		return
	}
	if ready := find(conditions, infrav1.ReadyCondition); ready != nil {
		t.condition(about, *ready, next{})
	}
}

// unwell takes up the conditions that are not well but for Ready, which repeats one of them,
// and returns how many they are.
func (t *teller) unwell(about string, conditions []metav1.Condition) int {
	unwell := show.Unwell(conditions)
	for _, c := range unwell {
		var when next
		if show.WaitsForKey(conditions, c) {
			when.text = "nothing, before the vendor takes the API key: CredentialsRejected says what to do"
		}
		t.condition(about, c, when)
	}
	return len(unwell)
}

// noManager takes up that no manager works: nothing of what follows is new then.
func (t *teller) noManager(namespace string) {
	for _, i := range show.NoManager(t.s) {
		if i.Namespace == namespace {
			t.add(Point{
				About: fmt.Sprintf("manager in %s", cmp.Or(namespace, "no namespace")), Reason: i.Reason, Since: i.Since, Says: i.Message,
				Next: "nothing, until a manager works", Commands: []string{i.Command},
			}, reasons.Entry{Page: "alerts.md#nobodycountsthemacs"})
		}
	}
}
