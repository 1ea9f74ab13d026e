package main

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// What keeps the manager from taking a fleet for gone keeps its Secrets, too; what is another
// namespace's keeps nothing.
func TestWhatAFleetHas(t *testing.T) {
	s := &snapshot.Snapshot{}
	for _, namespace := range []string{clitest.Namespace, "another"} {
		for name, change := range map[string]func(*infrav1.ScalewayAppleSiliconMachine){
			"its-own-word": func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.FleetName = "builders" },
			"by-its-label": func(m *infrav1.ScalewayAppleSiliconMachine) {
				m.Labels = map[string]string{infrav1.FleetLabel: "builders"}
			},
			"by-its-maker": func(m *infrav1.ScalewayAppleSiliconMachine) {
				m.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: "builders"}
			},
			"by-its-Cluster": func(m *infrav1.ScalewayAppleSiliconMachine) {
				m.Spec.FleetName, m.Labels = "testers", map[string]string{clusterv1.ClusterNameLabel: "builders"}
			},
			"another's": func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.FleetName = "testers" },
		} {
			m := infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			change(&m)
			s.Machines = append(s.Machines, m)
		}
		for name, says := range map[string]struct{ label, template string }{
			"builders": {}, "by-its-label": {label: "builders"}, "by-its-template": {template: "of-builders"},
			"testers": {label: "testers", template: "of-testers"}, "silent": {template: "silent"}, "its-template-is-gone": {template: "gone"},
		} {
			d := clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			d.Spec.Template.Labels = map[string]string{infrav1.FleetLabel: says.label}
			d.Spec.Template.Spec.InfrastructureRef.Name = says.template
			s.Fleets = append(s.Fleets, d)
		}
		for name, fleet := range map[string]string{"of-builders": "builders", "of-testers": "testers", "silent": ""} {
			template := infrav1.ScalewayAppleSiliconMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			if template.Spec.Template.Spec.FleetName = fleet; namespace == "another" {
				template.Spec.Template.Spec.FleetName = "builders" // templates of another namespace are none of these
			}
			s.Templates = append(s.Templates, template)
		}
		for _, name := range []string{"builders", "macfleet"} {
			s.Clusters = append(s.Clusters, clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		}
	}
	f := act.Fleet{Namespace: clitest.Namespace, Name: "builders"}
	fillFleet(&f, s)
	var machines, deployments []string
	for _, m := range f.Machines {
		machines = append(machines, m.Name)
	}
	for _, d := range f.Deployments {
		deployments = append(deployments, d.Name)
	}
	for name, c := range map[string]struct{ found, want []string }{
		"Machines":           {machines, []string{"its-own-word"}},
		"others":             {f.Others, []string{"Cluster builders", "Machine by-its-Cluster", "Machine by-its-label", "Machine by-its-maker"}},
		"MachineDeployments": {deployments, []string{"builders", "by-its-label", "by-its-template"}},
	} {
		slices.Sort(c.found)
		if !slices.Equal(c.found, c.want) {
			t.Errorf("%s: %q, want %q", name, c.found, c.want)
		}
	}
}
