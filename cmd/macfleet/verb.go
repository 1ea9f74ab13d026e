package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/macfleet/macfleet/internal/cli/cluster"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// verb is what all verbs have that speak to a cluster.
type verb struct {
	cluster cluster.Flags
	output  string
	outputs []string
}

// add adds the flags, with these forms of output.
func (v *verb) add(cmd *cobra.Command, outputs ...string) {
	v.cluster.AddTo(cmd.Flags())
	if v.outputs = outputs; len(outputs) > 0 {
		cmd.Flags().StringVarP(&v.output, "output", "o", "", "how to print: "+strings.Join(outputs, ", "))
		_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(cobraWords(outputs), cobra.ShellCompDirectiveNoFileComp))
	}
	_ = cmd.RegisterFlagCompletionFunc("namespace", v.completeNamespaces)
}

func cobraWords(words []string) []cobra.Completion { return words }

func (v *verb) checkOutput() error {
	if v.output == "" || slices.Contains(v.outputs, v.output) {
		return nil
	}
	return usageError{fmt.Errorf("--output %s is none of %s", v.output, strings.Join(v.outputs, ", "))}
}

// load reads the kinds of the namespace that was typed, or of all.
func (v *verb) load(ctx context.Context, kinds ...snapshot.Kind) (client.WithWatch, *snapshot.Snapshot, error) {
	c, err := v.cluster.Client()
	if err != nil {
		return nil, nil, err
	}
	s, err := snapshot.Load(ctx, c, v.cluster.Chosen(), kinds...)
	return c, s, err
}

// withNodes reads the Nodes, too, where Machines are paused: what these say of theirs is old.
func withNodes(ctx context.Context, c client.Reader, s *snapshot.Snapshot) error {
	if !show.NeedsNodes(s) {
		return nil
	}
	return s.Add(ctx, c, snapshot.Nodes)
}

// loadStatus reads what status shows.
func loadStatus(ctx context.Context, c client.Reader, namespace string) (*snapshot.Snapshot, error) {
	s, err := snapshot.Load(ctx, c, namespace, show.StatusKinds()...)
	if err != nil {
		return s, err
	}
	return s, withNodes(ctx, c, s)
}

// nameOf is the name of [NAMESPACE/]NAME, or of KIND/NAME where KIND is one of the kinds. Machines
// and Clusters of Cluster API are named as ours are.
func (v *verb) nameOf(typed string, kinds ...snapshot.Kind) string {
	for _, kind := range kinds {
		switch kind {
		case snapshot.Machines:
			kinds = append(kinds, snapshot.CoreMachines)
		case snapshot.Zones:
			kinds = append(kinds, snapshot.Clusters)
		}
	}
	return v.cluster.NameOf(snapshot.WithoutKind(typed, kinds...))
}

// screenOf is what the verb writes to.
func screenOf(cmd *cobra.Command) screen.Screen { return screen.Of(cmd.OutOrStdout(), os.Getenv) }

// sayMissing ends a verb that could not show everything.
func sayMissing(errs io.Writer, missing []snapshot.Missing) error {
	for _, m := range missing {
		fmt.Fprintf(errs, "macfleet: not shown: %s: %s\n", m.Kind, m.Why)
	}
	if len(missing) > 0 {
		return exitError{exitPartly}
	}
	return nil
}

// write writes a value as JSON or YAML.
func write(out io.Writer, output string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil && output == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", output, err)
	}
	_, err = fmt.Fprintln(out, strings.TrimSuffix(string(text), "\n"))
	return err
}

// oneName wants one argument.
func oneName(say string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usageError{fmt.Errorf("%s: see %s --help", say, cmd.CommandPath())}
		}
		return nil
	}
}

// atLeastOne wants a name first; what follows is the verb's.
func atLeastOne(say string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || args[0] == "" {
			return usageError{fmt.Errorf("%s: see %s --help", say, cmd.CommandPath())}
		}
		return nil
	}
}

// group is a command that only holds others.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}
