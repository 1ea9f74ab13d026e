package main

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

func newRollout() *cobra.Command {
	cmd := group("rollout", "How a change reaches the Macs of a profile; pause it, let it go on")
	status := explainer("status", "How far a profile's rollout is, and which Macs are behind", snapshot.Profiles, nil, tellProfile)
	status.Use = "status PROFILE"
	cmd.AddCommand(status, pauseVerb("pause", "Begin no turn and mend no Mac, until it is resumed", act.Pause{}), pauseVerb("resume", "Let a paused rollout go on", act.Pause{Resume: true}))
	return cmd
}

func tellProfile(ctx context.Context, v *verb, name string) (explain.Story, error) {
	s, err := v.loadFor(ctx, snapshot.Profiles, explain.ProfileKinds())
	if err != nil {
		return explain.Story{}, err
	}
	p, err := explain.Find(s.Profiles, "profile", name)
	if err != nil {
		return explain.Story{}, err
	}
	return explain.Profile(s, reasons.Read(), p), nil
}

func pauseVerb(use, short string, pause act.Pause) *cobra.Command {
	var d doer
	cmd := &cobra.Command{
		Use: use + " PROFILE", Short: short,
		Args: oneName("say which profile"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.do(cmd, func(ctx context.Context, c client.Client) (act.Plan, error) {
				s, err := snapshot.Load(ctx, c, d.cluster.Chosen(), snapshot.Profiles)
				if err != nil {
					return act.Plan{}, err
				}
				p, err := explain.FindExactly(s.Profiles, "profile", args[0])
				if err != nil {
					return act.Plan{}, err
				}
				return pause.Plan(p)
			})
		},
	}
	d.add(cmd)
	cmd.ValidArgsFunction = d.completeNames(snapshot.Profiles)
	return cmd
}
