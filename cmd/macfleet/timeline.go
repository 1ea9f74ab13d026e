package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/cli/timeline"
	"github.com/macfleet/macfleet/internal/host"
)

func newTimeline() *cobra.Command {
	var v macVerb
	var mac bool
	cmd := &cobra.Command{
		Use:   "timeline NAME",
		Short: "What happened to one Mac: events, vendor calls, conditions, records and converge steps, merged in time",
		Long: "NAME is a host's or a Machine's. Of a Mac in use both are told of, with its Node. Events are kept for an\n" +
			"hour in most clusters, and with them the calls to the vendor and what each converge changed; a condition\n" +
			"shows its last change alone. Of a host or Machine that is gone its events are told while there are any, by\n" +
			"its whole name. With --mac the Mac is asked by SSH, as `machine logs` does, for each step of its last\n" +
			"converge, by its own clock.",
		Example: "  macfleet timeline fr-par-1-1a2b3c4d\n  macfleet timeline macfleet-builders-x7k2p-9qxlm --mac\n  macfleet timeline macfleet-builders-x7k2p-9qxlm -o json",
		Args:    oneName("say which host or Machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.checkOutput(); err != nil {
				return err
			}
			if err := v.checkPort(); err != nil {
				return err
			}
			var more []snapshot.Kind
			if mac {
				more = append(more, snapshot.CoreMachines)
			}
			s, of, gone, err := v.loadMac(cmd.Context(), v.nameOf(args[0], snapshot.Hosts, snapshot.Machines), more...)
			if err != nil {
				return err
			}
			var steps []timeline.Entry
			if mac {
				var why error
				if steps, why = v.ofMac(cmd.Context(), s, of.Machine); why != nil {
					s.Missing = append(s.Missing, snapshot.Missing{Kind: "the Mac's last converge", Why: oneLine(why)})
				}
			}
			entries := timeline.Merge(s, of, steps...)
			if v.output != "" {
				sayGone(cmd.ErrOrStderr(), gone) // programs read a list alone
				err = write(cmd.OutOrStdout(), v.output, entries)
			} else {
				sayGone(cmd.OutOrStdout(), gone)
				err = timeline.Write(cmd.OutOrStdout(), screenOf(cmd), entries)
			}
			if err != nil {
				return err
			}
			return sayMissing(cmd.ErrOrStderr(), s.Missing)
		},
	}
	v.verb.add(cmd, "json", "yaml")
	v.addPort(cmd)
	cmd.Flags().BoolVar(&mac, "mac", false, "ask the Mac for the steps of its last converge, by SSH: it takes the right to read the namespace's Secrets")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return append(names(cmd.Context(), &v.verb, snapshot.Hosts), names(cmd.Context(), &v.verb, snapshot.Machines)...), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// loadMac reads all that is known of one Mac. Where no host and no Machine has the name any
// more, gone says so.
func (v *verb) loadMac(ctx context.Context, name string, more ...snapshot.Kind) (s *snapshot.Snapshot, of timeline.Of, gone string, err error) {
	c, s, err := v.load(ctx, append(more, snapshot.Hosts, snapshot.Machines, snapshot.Remediations, snapshot.Nodes)...)
	if err != nil {
		return nil, of, "", err
	}
	of, unknown := macOf(s, name)
	if unknown == nil {
		err := s.AddEvents(ctx, c, of.Names()...)
		return s, of, goneButClaimed(s, of, name), err
	}
	if several, is := errors.AsType[explain.UnknownError](unknown); is && len(several.Among) > 0 {
		return nil, of, "", unknown
	}
	if err := s.AddEvents(ctx, c, name); err != nil {
		return nil, of, "", err
	}
	past, found := timeline.PastOf(s, name)
	switch {
	case found && past.Host != nil:
		of.Host = past.Host
		return s, of, past.Says(), s.AddEvents(ctx, c, of.Host.Name)
	case found:
		return s, of, past.Says(), nil
	case s.Lacks(snapshot.Events) != "":
		return nil, of, "", fmt.Errorf("%w (whether it is gone cannot be told: events: %s)", unknown, s.Lacks(snapshot.Events))
	}
	return nil, of, "", fmt.Errorf("%w (no event tells of one that is gone, either: %s, and found by the whole name)", unknown, timeline.Kept)
}

// goneButClaimed says that the Machine which was typed is gone. Its host was found in its place:
// the server goes by the Machine's name until it is wiped.
func goneButClaimed(s *snapshot.Snapshot, of timeline.Of, name string) string {
	if past, found := timeline.PastOf(s, name); found && of.Machine == nil && past.Host != nil {
		return past.Says()
	}
	return ""
}

// sayGone says before what happened that it happened to something that is gone.
func sayGone(out io.Writer, gone string) {
	if gone != "" {
		fmt.Fprintln(out, gone)
	}
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
