package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// redrawEvery is how often a screen is drawn anew at most.
const redrawEvery = time.Second

// lookEvery is how often it is looked anew though nothing changed: ages grow, and a manager
// that stopped changes nothing any more.
const lookEvery = 30 * time.Second

func newFleetStatus() *cobra.Command {
	var v verb
	var watch bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "The pool, the fleets, what waits and why, and what needs a person",
		Long:    "It looks at all namespaces, or at the one that -n names.",
		Example: "  macfleet status\n  macfleet status --watch\n  macfleet status -o json | jq .needsPerson",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := v.checkOutput(); err != nil {
				return err
			}
			c, err := v.cluster.Client()
			if err != nil {
				return err
			}
			s, err := loadStatus(cmd.Context(), c, v.cluster.Chosen())
			if err != nil {
				return err
			}
			if watch {
				return v.watchStatus(cmd, c, s)
			}
			return v.printStatus(cmd, s)
		},
	}
	v.add(cmd, "json", "yaml")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it anew with each change, until Ctrl-C")
	return cmd
}

func (v *verb) printStatus(cmd *cobra.Command, s *snapshot.Snapshot) error {
	status := show.StatusOf(s, reasons.Read())
	if v.output != "" {
		if err := write(cmd.OutOrStdout(), v.output, status); err != nil {
			return err
		}
	} else if err := status.Write(cmd.OutOrStdout(), screenOf(cmd)); err != nil {
		return err
	}
	return sayMissing(cmd.ErrOrStderr(), s.Missing)
}

// watchStatus shows the screen with each change until a person ends it, which is no failure.
func (v *verb) watchStatus(cmd *cobra.Command, c client.WithWatch, s *snapshot.Snapshot) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	for {
		if screen := screenOf(cmd); screen.Terminal {
			fmt.Fprint(out, clearScreen)
		} else if v.output == "" {
			fmt.Fprintf(out, "--- %s\n", s.At.UTC().Format(time.RFC3339))
		}
		if err := v.printStatus(cmd, s); err != nil && len(s.Missing) == 0 {
			return err
		}
		drawn := time.After(redrawEvery)
		bounded, cancel := context.WithTimeout(ctx, lookEvery)
		_ = s.AwaitChange(bounded, c, v.cluster.Chosen(), show.StatusKinds()...) // fails when it is ended by hand, or time is up
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-drawn:
		}
		next, err := loadStatus(ctx, c, v.cluster.Chosen())
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		s = next
	}
}

// clearScreen moves to the first line of a terminal, and clears what is below.
const clearScreen = "\x1b[H\x1b[2J"

// printTable prints a table for people.
func printTable(cmd *cobra.Command, table screen.Table, nothing string) error {
	if len(table.Rows) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), nothing)
		return nil
	}
	return table.Write(cmd.OutOrStdout(), screenOf(cmd))
}

// names are completed with what the cluster has.
func names(ctx context.Context, v *verb, kind snapshot.Kind) []string {
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	_, s, err := v.load(ctx, kind)
	if err != nil {
		return nil
	}
	return s.Names(kind)
}
