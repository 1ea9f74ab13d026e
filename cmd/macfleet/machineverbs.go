package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// machineRecipe is a recipe for a Machine as a command.
func machineRecipe(use, short, long string, recipe func() planner, kinds ...snapshot.Kind) *cobra.Command {
	var d doer
	cmd := &cobra.Command{
		Use: use + " NAME", Short: short, Long: long + "\n\nNAME is the Machine's whole name.",
		Args: oneName("say which Machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := d.nameOf(args[0], snapshot.Machines)
			return d.do(cmd, func(ctx context.Context, c client.Client) (act.Plan, error) {
				mac, err := d.macOfMachine(ctx, c, name, kinds...)
				if err != nil {
					return act.Plan{}, err
				}
				return recipe().Plan(mac)
			})
		},
	}
	d.add(cmd)
	cmd.ValidArgsFunction = d.completeNames(snapshot.Machines)
	return cmd
}

// macOfMachine reads a Machine with what it has, and the Pods on its Mac as far as the rights go.
func (d *doer) macOfMachine(ctx context.Context, c client.Client, name string, kinds ...snapshot.Kind) (act.Mac, error) {
	s, err := snapshot.Load(ctx, c, d.cluster.Chosen(), append(kinds, snapshot.Machines, snapshot.Hosts, snapshot.CoreMachines, snapshot.Clusters)...)
	if err != nil {
		return act.Mac{}, err
	}
	if why := s.Lacks(snapshot.Machines); why != "" {
		return act.Mac{}, fmt.Errorf("%s: %s", snapshot.Machines, why)
	}
	m, err := explain.FindExactly(s.Machines, "machine", name)
	if err != nil {
		return act.Mac{}, err
	}
	if err := s.AddPodsOn(ctx, c, m.Name); err != nil {
		return act.Mac{}, err
	}
	return act.OfMachine(s, m), nil
}

func machineVerbs() []*cobra.Command {
	return []*cobra.Command{newRestartAgent(), newMachineCheck(), newMachinePause("pause", false), newMachinePause("resume", true), newRemediate(), newDeleteCopy()}
}

func newRestartAgent() *cobra.Command {
	var a act.RestartAgent
	cmd := machineRecipe("restart-agent", "Restart the agent on a Machine's Mac; its guests live on",
		"The manager does it by SSH, with a push of what the Machine's profile asks for now. It needs no health check.",
		func() planner {
			if a.ID == "" {
				a.ID = "by-hand-" + time.Now().UTC().Format("20060102t150405z")
			}
			return a
		})
	cmd.Flags().StringVar(&a.ID, "id", "", "name of the request, which is met once (default: made of the time)")
	return cmd
}

func newMachineCheck() *cobra.Command {
	return machineRecipe("check", "Have the manager look now what was changed on a Machine's Mac behind its back",
		"It looks every six hours by itself, or as often as manager.driftCheckInterval of the chart says; where that is\n0 it never looks, and this comes to nothing.", func() planner { return act.CheckNow{} })
}

func newMachinePause(use string, resume bool) *cobra.Command {
	short, long := "Leave a Machine's Mac as it is, until it is resumed",
		"A paused Machine has no turn in a rollout, nothing on its Mac is mended, and no health check goes a step\nfurther. Guests run on, and deleting the Machine still releases its Mac."
	if resume {
		short, long = "Let a Machine go on that is paused", "It takes part in rollouts, in mending and in health checks again, and guests run on."
	}
	return machineRecipe(use, short, long,
		func() planner { return act.PauseMachine{Resume: resume} })
}

func newDeleteCopy() *cobra.Command {
	return machineRecipe("delete-copy", "Delete a copy of a Machine that names another one's Mac; that Mac and its Node stay",
		"Deleted by kubectl, it would take the other's Node with it: Cluster API finds a Machine's Node by the providerID.\nA Machine that has a Mac of its own is refused.", func() planner { return act.DeleteCopy{} })
}

func newRemediate() *cobra.Command {
	return machineRecipe("remediate", "Have a health check give a Machine up at once: another Mac takes its place",
		"It needs a health check that looks at the Machine and acts now.", func() planner { return act.Remediate{} }, snapshot.HealthChecks)
}
