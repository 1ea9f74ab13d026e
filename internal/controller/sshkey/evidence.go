package sshkey

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/fleetkey"
)

// +kubebuilder:rbac:groups="",resources=secrets,namespace=fleet,verbs=get
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments,verbs=list
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachines;scalewayapplesiliconmachinetemplates;scalewayapplesiliconhosts,verbs=list

// look reads, uncached, all that would keep a fleet's key.
func (s *Sweeper) look(ctx context.Context, owner fleetkey.Owner) (fleetkey.Evidence, error) {
	var e fleetkey.Evidence
	var err error
	if e.InUse, err = s.inUse(ctx, owner); err != nil {
		return e, err
	}
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := s.Reader.List(ctx, machines, client.InNamespace(owner.Namespace)); err != nil {
		return e, fmt.Errorf("listing Machines: %w", err)
	}
	alive := map[string]bool{}
	for _, m := range machines.Items {
		alive[m.Name] = true
		if mayBeOf(&m, owner.Fleet) {
			e.Machines = append(e.Machines, fleetkey.Machine{Name: m.Name, Bootstrapped: m.Spec.ProviderID != "", Key: m.Status.Applied.SSHKey})
		}
	}
	if e.Users, err = s.users(ctx, owner); err != nil {
		return e, err
	}
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := s.Reader.List(ctx, hosts); err != nil {
		return e, fmt.Errorf("listing Hosts: %w", err)
	}
	for _, h := range hosts.Items {
		// A Host does not say which fleet its Machine was of, so each of the namespace
		// counts that no Machine holds.
		if ref := h.Spec.ClaimRef; ref != nil && ref.Namespace == owner.Namespace && !alive[ref.Name] {
			e.Hosts = append(e.Hosts, h.Name)
		}
	}
	return e, nil
}

// inUse are the public halves in the fleet's Secret; none where it is gone.
func (s *Sweeper) inUse(ctx context.Context, owner fleetkey.Owner) ([]string, error) {
	secret := &corev1.Secret{}
	name := owner.Fleet + fleetkey.SecretSuffix
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	keys, err := fleetkey.Read(secret)
	var halves []string
	for _, key := range keys {
		halves = append(halves, key.Public())
	}
	return halves, err
}

// mayBeOf: a Machine's fleet is its own word, or that of objects above it that may be
// gone. Too many count rather than too few.
func mayBeOf(m *infrav1.ScalewayAppleSiliconMachine, fleet string) bool {
	for _, said := range []string{
		m.Spec.FleetName, m.Labels[infrav1.FleetLabel], m.Labels[clusterv1.MachineDeploymentNameLabel], m.Labels[clusterv1.ClusterNameLabel],
	} {
		if said == fleet {
			return true
		}
	}
	return false
}

// users are the MachineDeployments and the Cluster from which Machines of the fleet
// come.
func (s *Sweeper) users(ctx context.Context, owner fleetkey.Owner) ([]string, error) {
	in := client.InNamespace(owner.Namespace)
	templates := &infrav1.ScalewayAppleSiliconMachineTemplateList{}
	if err := s.Reader.List(ctx, templates, in); err != nil {
		return nil, fmt.Errorf("listing templates: %w", err)
	}
	named := map[string]bool{}
	for _, t := range templates.Items {
		named[t.Name] = t.Spec.Template.Spec.FleetName == owner.Fleet
	}
	deployments := &clusterv1.MachineDeploymentList{}
	if err := s.Reader.List(ctx, deployments, in); err != nil {
		return nil, fmt.Errorf("listing MachineDeployments: %w", err)
	}
	var users []string
	for _, d := range deployments.Items {
		if d.Name == owner.Fleet || named[d.Spec.Template.Spec.InfrastructureRef.Name] {
			users = append(users, "MachineDeployment "+d.Name)
		}
	}
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Fleet}, &clusterv1.Cluster{})
	if err == nil {
		users = append(users, "Cluster "+owner.Fleet)
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", owner.Fleet, err)
	}
	return users, nil
}
