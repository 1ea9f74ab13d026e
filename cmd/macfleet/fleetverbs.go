package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/fleetsecret"
)

// newFleet holds what is done to a fleet's keys.
func newFleet() *cobra.Command {
	cmd := group("fleet", "What to do to the keys of a fleet")
	key := group("ssh-key", "Replace the SSH key of a fleet")
	key.AddCommand(newReplaceKey(), newFinishKey())
	cmd.AddCommand(key, fleetVerb("retire", "Delete the keys of a fleet that is gone: its Secrets, and its SSH key at the vendor",
		"Scale the fleet to 0 first, wait until its Macs are wiped, and take it out of the values of its release.",
		nil, act.Retire{}.Plan))
	return cmd
}

func newReplaceKey() *cobra.Command {
	var replace act.ReplaceKey
	return fleetVerb("replace", "Give a fleet a new SSH key, beside the one that its Macs know",
		"The key is made here, and goes to the fleet's Secret alone. End it with `fleet ssh-key finish`, once all Macs of\nthe fleet have it.",
		func() (err error) {
			replace.Private, replace.Public, err = fleetsecret.NewKey("macfleet")
			return err
		}, func(f act.Fleet) (act.Plan, error) { return replace.Plan(f) }) //nolint:gocritic // the key is made later
}

func newFinishKey() *cobra.Command {
	return fleetVerb("finish", "Take the previous SSH key out of a fleet, once all of its Macs have the new one",
		"It names the Macs that do not have the new one, and stops while there are any.", nil, act.FinishKey{}.Plan)
}

// fleetVerb is a recipe for a fleet as a command. What has to be made before it is planned is made once.
func fleetVerb(use, short, long string, before func() error, recipe func(act.Fleet) (act.Plan, error)) *cobra.Command {
	var d doer
	cmd := &cobra.Command{
		Use: use + " FLEET", Short: short, Long: long + "\n\nFLEET is its whole name, as of its MachineDeployment.",
		Args: oneName("say which fleet"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if before != nil {
				if err := before(); err != nil {
					return err
				}
			}
			name := d.nameOf(args[0], snapshot.Fleets)
			return d.do(cmd, func(ctx context.Context, c client.Client) (act.Plan, error) {
				f, err := d.fleet(ctx, c, name)
				if err != nil {
					return act.Plan{}, err
				}
				return recipe(f)
			})
		},
	}
	d.add(cmd)
	cmd.ValidArgsFunction = d.completeNames(snapshot.Fleets)
	return cmd
}

// fleet reads a fleet with its Secrets. Without sight of the Machines nobody can tell who needs these.
func (d *doer) fleet(ctx context.Context, c client.Client, name string) (act.Fleet, error) {
	kinds := []snapshot.Kind{snapshot.Machines, snapshot.CoreMachines, snapshot.Fleets, snapshot.Templates, snapshot.Clusters, snapshot.Hosts, snapshot.Zones}
	s, err := snapshot.Load(ctx, c, d.cluster.Chosen(), kinds...)
	if err != nil {
		return act.Fleet{}, err
	}
	for _, kind := range kinds[:5] {
		if why := s.Lacks(kind); why != "" {
			return act.Fleet{}, fmt.Errorf("whose keys these are cannot be told: %s: %s", kind, why)
		}
	}
	f := act.Fleet{Name: name}
	if f.Namespace, err = d.namespaceOf(s); err != nil {
		return act.Fleet{}, err
	}
	of := fleetsecret.Fleet{Namespace: f.Namespace, Name: name}
	if f.SSH, err = readSecret(ctx, c, of.SSHSecret()); err != nil {
		return act.Fleet{}, err
	}
	if f.Signing, err = readSecret(ctx, c, of.SigningSecret()); err != nil {
		return act.Fleet{}, err
	}
	fillFleet(&f, s)
	return f, nil
}

// fillFleet finds what a fleet has, what leaves its namespace, and what the manager counts
// beside that before it takes a fleet for gone.
func fillFleet(f *act.Fleet, s *snapshot.Snapshot) {
	for i := range s.Machines {
		switch m := &s.Machines[i]; {
		case m.Namespace != f.Namespace:
		case fleetOf(s, m) == f.Name:
			f.Machines = append(f.Machines, m)
		case slices.Contains([]string{m.Labels[infrav1.FleetLabel], m.Labels[clusterv1.MachineDeploymentNameLabel], m.Labels[clusterv1.ClusterNameLabel]}, f.Name):
			f.Others = append(f.Others, "Machine "+m.Name)
		}
	}
	for i := range s.Fleets {
		if md := &s.Fleets[i]; md.Namespace == f.Namespace && (md.Name == f.Name || saysFleet(s, md, f.Name)) {
			f.Deployments = append(f.Deployments, md)
		}
	}
	for i := range s.Clusters {
		if c := &s.Clusters[i]; c.Namespace == f.Namespace && c.Name == f.Name {
			f.Others = append(f.Others, "Cluster "+c.Name)
		}
	}
	for i := range s.Hosts {
		if h := &s.Hosts[i]; h.Spec.Release != nil && h.Spec.ClaimRef != nil && h.Spec.ClaimRef.Namespace == f.Namespace {
			f.Leaving = append(f.Leaving, h.Name)
		}
	}
}

// saysFleet: the Machines of a MachineDeployment will be of this fleet, as its template says.
func saysFleet(s *snapshot.Snapshot, md *clusterv1.MachineDeployment, fleet string) bool {
	of := md.Spec.Template
	return of.Labels[infrav1.FleetLabel] == fleet || slices.ContainsFunc(s.Templates, func(t infrav1.ScalewayAppleSiliconMachineTemplate) bool {
		return t.Namespace == md.Namespace && t.Name == of.Spec.InfrastructureRef.Name && t.Spec.Template.Spec.FleetName == fleet
	})
}

// namespaceOf is the one that was typed, or the only one that has a Cluster of Macs.
func (d *doer) namespaceOf(s *snapshot.Snapshot) (string, error) {
	found := d.cluster.Chosen()
	for i := range s.Zones {
		switch in := s.Zones[i].Namespace; {
		case found == "":
			found = in
		case found != in:
			return "", errors.New("several namespaces have fleets: name one with -n")
		}
	}
	if found == "" {
		return "", errors.New("no namespace is known to have fleets: name one with -n")
	}
	return found, nil
}

// readSecret reads a Secret; nil: it is not there.
func readSecret(ctx context.Context, c client.Client, name client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.Get(ctx, name, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read the Secret %s: ask for the right to get it", name)
	case err != nil:
		return nil, fmt.Errorf("reading the Secret %s: %w", name, err)
	}
	return secret, nil
}
