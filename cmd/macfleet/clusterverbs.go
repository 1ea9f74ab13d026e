package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/workload"
)

// newCluster holds what is done to a whole Cluster.
func newCluster() *cobra.Command {
	cmd := group("cluster", "What to do to a whole Cluster: pause it, or have its Macs join here after a move")
	cmd.AddCommand(
		newPauseCluster("pause", "Have macfleet and Cluster API leave a Cluster and its Machines alone, until it is resumed",
			"No Mac is claimed, ordered, set up, changed, mended, remediated, rebooted or released for them, and deletions\n"+
				"wait. Guests run on; a host whose release is recorded is wiped all the same, and a person's forced reboot is\nmade.", false),
		newPauseCluster("resume", "Let a paused Cluster go on, with its Machines",
			"Setup, rollouts, mending, health checks and recovery go on, and so do deletions that waited, which release\ntheir Macs.", true),
		newRejoin(),
	)
	return cmd
}

func newPauseCluster(use, short, long string, resume bool) *cobra.Command {
	return clusterVerb(use, short, long, func(_ context.Context, _ client.Client, c act.Cluster) (act.Plan, error) {
		return act.PauseCluster{Resume: resume}.Plan(c)
	})
}

func newRejoin() *cobra.Command {
	var a act.Rejoin
	cmd := clusterVerb("rejoin", "Have the Macs of a Cluster that was moved here, or restored, join this cluster",
		"Until then they stay nodes of the cluster that they are in, and their Machines here say DifferentCluster. It\npauses the Cluster's health checks; with --end, once all Machines run, these go on.",
		func(ctx context.Context, c client.Client, of act.Cluster) (act.Plan, error) {
			here := &corev1.Namespace{}
			if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, here); err != nil {
				return act.Plan{}, fmt.Errorf("which cluster this is cannot be told: %w", err)
			}
			a.Here = string(here.UID)
			var err error
			if a.Ready, err = readyNodes(ctx, c); err != nil {
				return act.Plan{}, err
			}
			return a.Plan(of)
		}, snapshot.ControlPlanes, snapshot.HealthChecks)
	cmd.Flags().BoolVar(&a.End, "end", false, "end the pause of the Cluster's health checks, once all Machines run")
	return cmd
}

// readyNodes says of each Node whether it is Ready; nil: they may not be read.
func readyNodes(ctx context.Context, c client.Reader) (map[string]bool, error) {
	s, err := snapshot.Load(ctx, c, "", snapshot.Nodes)
	if _, hidden := errors.AsType[snapshot.NothingError](err); hidden {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ready := map[string]bool{}
	for i := range s.Nodes {
		ready[s.Nodes[i].Name] = workload.NodeReady(&s.Nodes[i])
	}
	return ready, nil
}

// clusterVerb is a recipe for a Cluster as a command. It needs sight of all that it speaks of.
func clusterVerb(use, short, long string, recipe func(context.Context, client.Client, act.Cluster) (act.Plan, error), more ...snapshot.Kind) *cobra.Command {
	var d doer
	cmd := &cobra.Command{
		Use: use + " CLUSTER", Short: short, Long: long + "\n\nCLUSTER is its whole name.",
		Args: oneName("say which Cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := d.nameOf(args[0], snapshot.Clusters)
			return d.do(cmd, func(ctx context.Context, c client.Client) (act.Plan, error) {
				s, err := snapshot.Load(ctx, c, d.cluster.Chosen(), append(more, snapshot.Clusters, snapshot.Machines)...)
				if err != nil {
					return act.Plan{}, err
				}
				if len(s.Missing) > 0 {
					return act.Plan{}, fmt.Errorf("what this is for cannot be told: %s: %s", s.Missing[0].Kind, s.Missing[0].Why)
				}
				found, err := explain.FindExactly(s.Clusters, "cluster", name)
				if err != nil {
					return act.Plan{}, err
				}
				return recipe(ctx, c, act.ClusterOf(s, found))
			})
		},
	}
	d.add(cmd)
	cmd.ValidArgsFunction = d.completeNames(snapshot.Clusters)
	return cmd
}
