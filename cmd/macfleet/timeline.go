package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/cli/timeline"
	"github.com/macfleet/macfleet/internal/host"
)

func newTimeline() *cobra.Command {
	var v verb
	cmd := &cobra.Command{
		Use:   "timeline NAME",
		Short: "What happened to one Mac: events, conditions and records, merged in time",
		Long: "NAME is a host's or a Machine's. Of a Mac in use both are told of, with its Node. Events are kept for an\n" +
			"hour in most clusters; a condition shows its last change alone.",
		Example: "  macfleet timeline fr-par-1-1a2b3c4d\n  macfleet timeline macfleet-builders-x7k2p-9qxlm -o json",
		Args:    oneName("say which host or Machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.checkOutput(); err != nil {
				return err
			}
			s, of, err := v.loadMac(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			entries := timeline.Merge(s, of)
			if v.output != "" {
				err = write(cmd.OutOrStdout(), v.output, entries)
			} else {
				err = timeline.Write(cmd.OutOrStdout(), screenOf(cmd), entries)
			}
			if err != nil {
				return err
			}
			return sayMissing(cmd.ErrOrStderr(), s.Missing)
		},
	}
	v.add(cmd, "json", "yaml")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return append(names(cmd.Context(), &v, snapshot.Hosts), names(cmd.Context(), &v, snapshot.Machines)...), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// loadMac reads all that is known of one Mac.
func (v *verb) loadMac(ctx context.Context, name string) (*snapshot.Snapshot, timeline.Of, error) {
	c, s, err := v.load(ctx, snapshot.Hosts, snapshot.Machines, snapshot.Remediations, snapshot.Nodes)
	if err != nil {
		return nil, timeline.Of{}, err
	}
	of, err := macOf(s, name)
	if err != nil {
		return nil, of, err
	}
	var about []string
	if of.Host != nil {
		about = append(about, of.Host.Name)
	}
	if of.Machine != nil {
		about = append(about, of.Machine.Name)
	}
	return s, of, s.AddEvents(ctx, c, about...)
}

// macOf finds the host or Machine of a name, and the other one of the two.
func macOf(s *snapshot.Snapshot, name string) (timeline.Of, error) {
	m, noMachine := explain.Find(s.Machines, "machine", name)
	if noMachine == nil {
		return timeline.Of{Machine: m, Host: hostOf(s, m)}, nil
	}
	h, noHost := explain.FindHost(s.Hosts, name, false)
	if noHost == nil {
		of := timeline.Of{Host: h}
		for i := range s.Machines {
			if host.HoldsClaim(h, &s.Machines[i]) {
				of.Machine = &s.Machines[i]
			}
		}
		return of, nil
	}
	var unknown explain.UnknownError
	if errors.As(noMachine, &unknown) && len(unknown.Among)+len(unknown.Nearest) > 0 {
		return timeline.Of{}, noMachine
	}
	if errors.As(noHost, &unknown) && len(unknown.Among)+len(unknown.Nearest) > 0 {
		return timeline.Of{}, noHost
	}
	return timeline.Of{}, fmt.Errorf("there is no host and no Machine %s: see macfleet hosts and macfleet machines", name)
}

func hostOf(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) *infrav1.ScalewayAppleSiliconHost {
	for i := range s.Hosts {
		if host.HoldsClaim(&s.Hosts[i], m) {
			return &s.Hosts[i]
		}
	}
	return nil
}
