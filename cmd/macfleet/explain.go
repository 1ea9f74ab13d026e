package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

func newExplain() *cobra.Command {
	cmd := group("explain", "The whole story of a Machine, host, Pod, profile or cluster, and what to do")
	cmd.Long = "What it is, what it waits for and since when, what happens next by itself and when, what a person\n" +
		"can do, and where to read on."
	cmd.Example = "  macfleet explain host fr-par-1-1a2b3c4d\n  macfleet explain machine macfleet-builders-x7k2p-9qxlm\n  macfleet explain pod -n ci build-7\n  macfleet explain profile macfleet-builders -o json"
	cmd.AddCommand(newExplainHost(), newExplainMachine(), newExplainPod(), newExplainProfile(), newExplainCluster(), newExplainControlPlane())
	return cmd
}

// explainer is the verb for one kind.
func explainer(use, short string, kind snapshot.Kind, aliases []string, tell func(context.Context, *verb, string) (explain.Story, error)) *cobra.Command {
	var v verb
	cmd := &cobra.Command{
		Use: use + " NAME", Short: short, Aliases: aliases,
		Args: oneName("say which " + use),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.checkOutput(); err != nil {
				return err
			}
			story, err := tell(cmd.Context(), &v, args[0])
			if err != nil {
				return err
			}
			if v.output != "" {
				err = write(cmd.OutOrStdout(), v.output, story)
			} else {
				err = story.Write(cmd.OutOrStdout(), screenOf(cmd))
			}
			if err != nil {
				return err
			}
			return sayMissing(cmd.ErrOrStderr(), story.Missing)
		},
	}
	v.add(cmd, "json", "yaml")
	cmd.ValidArgsFunction = v.completeNames(kind)
	return cmd
}

// loadFor reads what a story needs; without its own kind there is none.
func (v *verb) loadFor(ctx context.Context, kind snapshot.Kind, kinds []snapshot.Kind) (*snapshot.Snapshot, error) {
	_, s, err := v.load(ctx, kinds...)
	if err != nil {
		return nil, err
	}
	if why := s.Lacks(kind); why != "" {
		return nil, fmt.Errorf("%s: %s", kind, why)
	}
	return s, nil
}

func newExplainHost() *cobra.Command {
	return explainer("host", "The story of a Mac of the pool", snapshot.Hosts, []string{"sash"}, func(ctx context.Context, v *verb, name string) (explain.Story, error) {
		s, err := v.loadFor(ctx, snapshot.Hosts, explain.HostKinds())
		if err != nil {
			return explain.Story{}, err
		}
		h, err := explain.FindHost(s.Hosts, name, false)
		if err != nil {
			return explain.Story{}, err
		}
		return explain.Host(s, reasons.Read(), h), nil
	})
}

func newExplainMachine() *cobra.Command {
	return explainer("machine", "The story of a Machine", snapshot.Machines, []string{"samm"}, func(ctx context.Context, v *verb, name string) (explain.Story, error) {
		s, err := v.loadFor(ctx, snapshot.Machines, explain.MachineKinds())
		if err != nil {
			return explain.Story{}, err
		}
		m, err := explain.Find(s.Machines, "machine", name)
		if err != nil {
			return explain.Story{}, err
		}
		return explain.Machine(s, reasons.Read(), m), nil
	})
}

func newExplainProfile() *cobra.Command {
	return explainer("profile", "The story of a MacNodeProfile and its rollout", snapshot.Profiles, []string{"mnp"}, tellProfile)
}

func newExplainCluster() *cobra.Command {
	return explainer("cluster", "The story of a cluster: its manager, the vendor, its control plane", snapshot.Zones, []string{"sasc"}, func(ctx context.Context, v *verb, name string) (explain.Story, error) {
		s, err := v.loadFor(ctx, snapshot.Zones, explain.ClusterKinds())
		if err != nil {
			return explain.Story{}, err
		}
		c, err := explain.Find(s.Zones, "cluster", name)
		if err != nil {
			return explain.Story{}, err
		}
		return explain.Cluster(s, reasons.Read(), c), nil
	})
}

func newExplainControlPlane() *cobra.Command {
	return explainer("controlplane", "The story of an ExternalControlPlane", snapshot.ControlPlanes, []string{"ecp"}, func(ctx context.Context, v *verb, name string) (explain.Story, error) {
		s, err := v.loadFor(ctx, snapshot.ControlPlanes, explain.ClusterKinds())
		if err != nil {
			return explain.Story{}, err
		}
		p, err := explain.Find(s.ControlPlanes, "controlplane", name)
		if err != nil {
			return explain.Story{}, err
		}
		return explain.ControlPlane(s, reasons.Read(), p), nil
	})
}

func newExplainPod() *cobra.Command {
	return explainer("pod", "The story of a Pod, and of the Mac that it runs on or waits for", snapshot.Pods, nil, func(ctx context.Context, v *verb, name string) (explain.Story, error) {
		namespace, err := v.cluster.Namespace()
		if err != nil {
			return explain.Story{}, err
		}
		c, err := v.cluster.Client()
		if err != nil {
			return explain.Story{}, err
		}
		// The Pod is in one namespace, and the fleets in another.
		var pods, fleets *snapshot.Snapshot
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() (err error) { pods, err = snapshot.Load(ctx, c, namespace, snapshot.Pods); return err })
		both.Go(func() (err error) { fleets, err = snapshot.Load(ctx, c, "", explain.PodKinds()...); return err })
		if err := both.Wait(); err != nil {
			return explain.Story{}, err
		}
		p, err := explain.Find(pods.Pods, "pod", name)
		if err != nil {
			return explain.Story{}, err
		}
		return explain.Pod(fleets, reasons.Read(), p), nil
	})
}
