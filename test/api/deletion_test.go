package api

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

const saysWipes = "its deletion wipes all of them"

// fleetOf is a fleet of a Cluster that there is, with so many Machines of so many.
func fleetOf(t *testing.T, has, wants int32) (*clusterv1.MachineDeployment, *clusterv1.Cluster) {
	t.Helper()
	c := clusterOf(t, newMachine())
	d := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: newName(), Namespace: c.Namespace}}
	d.Spec.ClusterName, d.Spec.Replicas = c.Name, &wants
	d.Spec.Selector.MatchLabels = map[string]string{"tuist.dev/fleet": d.Name}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.ClusterName = c.Name
	d.Spec.Template.Spec.Bootstrap.DataSecretName = ptr.To("none")
	d.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "ScalewayAppleSiliconMachineTemplate", Name: "t",
	}
	must(t, api.Create(t.Context(), d))
	d.Status.Replicas = &has
	must(t, api.Status().Update(t.Context(), d))
	return d, c
}

const saysFleet = "its deletion wipes their Macs"

// awaitFleetDeletion waits until the policy, which learns of a Cluster within a moment,
// refuses the fleet's deletion, or does not any more.
func awaitFleetDeletion(t *testing.T, d *clusterv1.MachineDeployment, refused bool) {
	t.Helper()
	must(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, rights, true, func(ctx context.Context) (bool, error) {
		err := clients[clusterAdmin].Delete(ctx, d.DeepCopy(), client.DryRunAll)
		return (err != nil && strings.Contains(err.Error(), saysFleet)) == refused, nil
	}))
}

// What prunes, or rolls a release back, deletes a fleet that somebody renamed: none with Macs.
func TestAFleetWithMacsIsNotDeletedBySlip(t *testing.T) {
	for name, change := range map[string]func(d *clusterv1.MachineDeployment){
		"it is allowed": func(d *clusterv1.MachineDeployment) {
			d.Annotations = map[string]string{"infrastructure.cluster.x-k8s.io/allow-delete": ""}
		},
		"it was moved": func(d *clusterv1.MachineDeployment) {
			d.Annotations = map[string]string{"clusterctl.cluster.x-k8s.io/delete-for-move": ""}
		},
		"it is scaled to 0": func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = ptr.To(int32(0)) },
		"of a topology": func(d *clusterv1.MachineDeployment) {
			d.Labels = map[string]string{clusterv1.ClusterTopologyOwnedLabel: ""}
		},
		"another provider's": func(d *clusterv1.MachineDeployment) {
			d.Spec.Template.Spec.InfrastructureRef.Kind = "DockerMachineTemplate"
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := fleetOf(t, 2, 3)
			awaitFleetDeletion(t, d, true)
			refused(t, clients[clusterAdmin].Delete(t.Context(), d.DeepCopy()), "MachineDeployment "+d.Name+" has 2 Machines")
			change(d)
			must(t, clients[clusterAdmin].Update(t.Context(), d))
			must(t, clients[clusterAdmin].Delete(t.Context(), d))
		})
	}
	t.Run("it has no Machine", func(t *testing.T) {
		full, _ := fleetOf(t, 1, 1)
		empty, _ := fleetOf(t, 0, 3)
		awaitFleetDeletion(t, full, true)
		must(t, clients[clusterAdmin].Delete(t.Context(), empty))
	})
	t.Run("its Cluster may be deleted", func(t *testing.T) {
		d, c := fleetOf(t, 1, 1)
		awaitFleetDeletion(t, d, true)
		c.Annotations = map[string]string{"infrastructure.cluster.x-k8s.io/allow-delete": ""}
		must(t, clients[clusterAdmin].Update(t.Context(), c))
		awaitFleetDeletion(t, d, false)
	})
	t.Run("with its Cluster", func(t *testing.T) {
		d, c := fleetOf(t, 1, 1)
		awaitFleetDeletion(t, d, true)
		c.Finalizers = []string{"test/holds"}
		must(t, api.Update(t.Context(), c))
		t.Cleanup(func() {
			c.Finalizers = nil
			_ = api.Update(context.WithoutCancel(t.Context()), c) // else it is left behind
		})
		must(t, api.Delete(t.Context(), c))
		must(t, api.Get(t.Context(), client.ObjectKeyFromObject(c), c))
		awaitFleetDeletion(t, d, false)
	})
}

// clusterOf is a Cluster with one Machine.
func clusterOf(t *testing.T, m *infrav1.ScalewayAppleSiliconMachine) *clusterv1.Cluster {
	t.Helper()
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: newName(), Namespace: "default"},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "ScalewayAppleSiliconCluster", Name: "c",
		}},
	}
	must(t, api.Create(t.Context(), c))
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: c.Name}
	must(t, clients[clusterAdmin].Create(t.Context(), m))
	return c
}

// awaitDeletion waits until the policy, which learns of a Machine within a moment,
// refuses the Cluster's deletion, or does not any more.
func awaitDeletion(t *testing.T, c *clusterv1.Cluster, refused bool) {
	t.Helper()
	must(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, rights, true, func(ctx context.Context) (bool, error) {
		err := clients[clusterAdmin].Delete(ctx, c.DeepCopy(), client.DryRunAll)
		return (err != nil && strings.Contains(err.Error(), saysWipes)) == refused, nil
	}))
}

// A Cluster's deletion wipes all of its Macs: no slip does it.
func TestAClusterWithMacsIsNotDeletedBySlip(t *testing.T) {
	for _, annotation := range []string{
		"infrastructure.cluster.x-k8s.io/allow-delete",
		"clusterctl.cluster.x-k8s.io/delete-for-move",
	} {
		t.Run(annotation, func(t *testing.T) {
			c := clusterOf(t, referring())
			awaitDeletion(t, c, true)
			refused(t, clients[clusterAdmin].Delete(t.Context(), c.DeepCopy()), "annotate cluster "+c.Name+" infrastructure.cluster.x-k8s.io/allow-delete=")
			c.Annotations = map[string]string{annotation: ""}
			must(t, clients[clusterAdmin].Update(t.Context(), c))
			must(t, clients[clusterAdmin].Delete(t.Context(), c))
		})
	}
	t.Run("no Mac of its own", func(t *testing.T) {
		awaitDeletion(t, clusterOf(t, referring()), true)
		must(t, clients[clusterAdmin].Delete(t.Context(), clusterOf(t, newMachine())))
	})
	t.Run("scaled to nothing", func(t *testing.T) {
		m := referring()
		c := clusterOf(t, m)
		awaitDeletion(t, c, true)
		must(t, clients[clusterAdmin].Delete(t.Context(), m))
		awaitDeletion(t, c, false)
		must(t, clients[clusterAdmin].Delete(t.Context(), c))
	})
}

// A MachineSet goes with its MachineDeployment, and not by a slip: its Macs would be wiped to
// have others set up.
func TestAMachineSetWithMacsIsNotDeletedBySlip(t *testing.T) {
	const allow = "infrastructure.cluster.x-k8s.io/allow-delete"
	for name, change := range map[string]func(*clusterv1.MachineSet, *clusterv1.MachineDeployment){
		"it is allowed": func(s *clusterv1.MachineSet, _ *clusterv1.MachineDeployment) {
			s.Annotations = map[string]string{allow: ""}
		},
		"its fleet may be deleted": func(_ *clusterv1.MachineSet, d *clusterv1.MachineDeployment) {
			d.Annotations = map[string]string{allow: ""}
		},
		"it was moved": func(s *clusterv1.MachineSet, _ *clusterv1.MachineDeployment) {
			s.Annotations = map[string]string{"clusterctl.cluster.x-k8s.io/delete-for-move": ""}
		},
		"it is scaled to 0": func(s *clusterv1.MachineSet, _ *clusterv1.MachineDeployment) { s.Spec.Replicas = ptr.To(int32(0)) },
		"it is nobody's":    func(s *clusterv1.MachineSet, _ *clusterv1.MachineDeployment) { s.OwnerReferences = nil },
		"another provider's": func(s *clusterv1.MachineSet, _ *clusterv1.MachineDeployment) {
			s.Spec.Template.Spec.InfrastructureRef.Kind = "DockerMachineTemplate"
		},
		"with its fleet": func(_ *clusterv1.MachineSet, d *clusterv1.MachineDeployment) { d.Finalizers = []string{"test/holds"} },
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := fleetOf(t, 2, 2)
			s := setOf(t, d)
			awaitSetDeletion(t, s, true)
			refused(t, clients[clusterAdmin].Delete(t.Context(), s.DeepCopy()), "MachineSet "+s.Name+" has 2 Machines")
			change(s, d)
			must(t, clients[clusterAdmin].Update(t.Context(), s))
			must(t, clients[clusterAdmin].Update(t.Context(), d))
			if len(d.Finalizers) > 0 {
				t.Cleanup(func() {
					d.Finalizers = nil
					_ = api.Update(context.WithoutCancel(t.Context()), d) // else it is left behind
				})
				d.Annotations = map[string]string{"clusterctl.cluster.x-k8s.io/delete-for-move": ""}
				must(t, api.Update(t.Context(), d))
				must(t, api.Delete(t.Context(), d))
				must(t, api.Get(t.Context(), client.ObjectKeyFromObject(d), d))
			}
			awaitSetDeletion(t, s, false)
		})
	}
}

// setOf is the MachineSet of a fleet, with all of its Machines.
func setOf(t *testing.T, d *clusterv1.MachineDeployment) *clusterv1.MachineSet {
	t.Helper()
	s := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Name: newName(), Namespace: d.Namespace,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: d.Name, UID: d.UID, Controller: ptr.To(true)}},
	}}
	s.Spec = clusterv1.MachineSetSpec{ClusterName: d.Spec.ClusterName, Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}
	must(t, api.Create(t.Context(), s))
	s.Status.Replicas = d.Status.Replicas
	must(t, api.Status().Update(t.Context(), s))
	return s
}

// awaitSetDeletion waits until the policy refuses it, or does not any more.
func awaitSetDeletion(t *testing.T, s *clusterv1.MachineSet, refused bool) {
	t.Helper()
	must(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, rights, true, func(ctx context.Context) (bool, error) {
		err := clients[clusterAdmin].Delete(ctx, s.DeepCopy(), client.DryRunAll)
		return (err != nil && strings.Contains(err.Error(), saysFleet)) == refused, nil
	}))
}
