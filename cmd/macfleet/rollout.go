package main

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

func newRollout() *cobra.Command {
	cmd := group("rollout", "How a change reaches the Macs of a profile; pause it, let it go on, take it back")
	status := explainer("status", "How far a profile's rollout is, and which Macs are behind", snapshot.Profiles, nil, tellProfile)
	status.Use = "status PROFILE"
	cmd.AddCommand(status, pauseVerb("pause", "Begin no turn and mend no Mac, until it is resumed", act.Pause{}), pauseVerb("resume", "Let a paused rollout go on", act.Pause{Resume: true}), newUndo())
	return cmd
}

func tellProfile(ctx context.Context, v *verb, name string) (explain.Story, error) {
	s, err := v.loadFor(ctx, snapshot.Profiles, nil, explain.ProfileKinds())
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
	return profileVerb(&cobra.Command{Use: use + " PROFILE", Short: short}, pause.Plan)
}

func newUndo() *cobra.Command {
	var undo act.Undo
	cmd := profileVerb(&cobra.Command{
		Use: "undo PROFILE", Short: "Make a profile what it was when all of its Macs had it last",
		Long: "A profile remembers the last four revisions that all of its Macs had. Macs take what is undone in turns, as\n" +
			"any change. Where Helm wrote the profile, its values have to follow: the next upgrade fails with a\n" +
			"conflict otherwise, or writes them again with --force-conflicts.",
		Example: "  macfleet rollout undo macfleet-builders\n  macfleet rollout undo macfleet-builders --to-revision aa461e465251",
	}, func(p *infrav1.MacNodeProfile) (act.Plan, error) { return undo.Plan(p) }) //nolint:gocritic // a method value would be of the flags before they are read
	cmd.Flags().StringVar(&undo.To, "to-revision", "", "the beginning of a revision (default: the last that differs from what is asked for now)")
	return cmd
}

// profileVerb changes a profile.
func profileVerb(cmd *cobra.Command, plan func(*infrav1.MacNodeProfile) (act.Plan, error)) *cobra.Command {
	var d doer
	cmd.Args = oneName("say which profile")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := d.nameOf(args[0], snapshot.Profiles)
		return d.do(cmd, func(ctx context.Context, c client.Client) (act.Plan, error) {
			s, err := snapshot.Load(ctx, c, d.cluster.Chosen(), snapshot.Profiles)
			if err != nil {
				return act.Plan{}, err
			}
			p, err := explain.FindExactly(s.Profiles, "profile", name)
			if err != nil {
				return act.Plan{}, err
			}
			return plan(p)
		})
	}
	d.add(cmd)
	cmd.ValidArgsFunction = d.completeNames(snapshot.Profiles)
	return cmd
}
