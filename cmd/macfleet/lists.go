package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/machine"
)

// lister is a verb that shows a table.
type lister struct {
	verb
	selector, sortBy, phase string
	// phases are all that there are.
	phases []string
}

func (l *lister) add(cmd *cobra.Command, phases []string) {
	l.phases = phases
	l.verb.add(cmd, "wide", "json", "yaml", "name")
	cmd.Flags().StringVarP(&l.selector, "selector", "l", "", "only those with these labels, such as a=b,c!=d")
	cmd.Flags().StringVar(&l.phase, "phase", "", "only those in this phase")
	_ = cmd.RegisterFlagCompletionFunc("phase", cobra.FixedCompletions(cobraWords(phases), cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&l.sortBy, "sort-by", "", "a column, such as age")
}

// selects says whether an object is asked for.
func (l *lister) selects() (func(object metav1.Object, phase string) bool, error) {
	selector, err := labels.Parse(l.selector)
	if err != nil {
		return nil, usageError{fmt.Errorf("--selector %s: %w", l.selector, err)}
	}
	if known := func(phase string) bool { return strings.EqualFold(l.phase, phase) }; l.phase != "" && !slices.ContainsFunc(l.phases, known) {
		return nil, usageError{fmt.Errorf("--phase %s is none of %s", l.phase, strings.Join(l.phases, ", "))}
	}
	return func(object metav1.Object, phase string) bool {
		return selector.Matches(labels.Set(object.GetLabels())) && (l.phase == "" || strings.EqualFold(l.phase, phase))
	}, nil
}

func newHosts() *cobra.Command {
	var l lister
	cmd := &cobra.Command{
		Use:     "hosts",
		Short:   "The Macs of the pool: phase, type, who has them",
		Example: "  macfleet hosts -o wide\n  macfleet hosts --phase Available -l infrastructure.cluster.x-k8s.io/type=M2-L\n  macfleet hosts --sort-by age",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return l.run(cmd, []snapshot.Kind{snapshot.Hosts}, func(s *snapshot.Snapshot, selected func(metav1.Object, string) bool) (listing, error) {
				hosts := slices.DeleteFunc(s.Hosts, func(h infrav1.ScalewayAppleSiliconHost) bool { return !selected(&h, string(h.Status.Phase)) })
				table, err := show.Hosts(hosts, s.At, l.output == "wide", l.sortBy)
				for i := range hosts {
					hosts[i].TypeMeta = typeMeta("ScalewayAppleSiliconHost")
				}
				return listing{table, "scalewayapplesiliconhost", hosts, "No host of the pool is as asked for."}, err
			})
		},
	}
	l.add(cmd, show.HostPhases())
	return cmd
}

func newMachines() *cobra.Command {
	var l lister
	cmd := &cobra.Command{
		Use:     "machines",
		Short:   "The Machines that have Macs or wait for one: phase, and why not further",
		Example: "  macfleet machines -n macfleet-system\n  macfleet machines -o wide --sort-by phase",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kinds := []snapshot.Kind{snapshot.Machines, snapshot.Remediations, snapshot.CoreMachines, snapshot.Clusters}
			return l.run(cmd, kinds, func(s *snapshot.Snapshot, selected func(metav1.Object, string) bool) (listing, error) {
				s.Machines = slices.DeleteFunc(s.Machines, func(m infrav1.ScalewayAppleSiliconMachine) bool { return !selected(&m, show.PhaseOf(s, &m)) })
				table, err := show.Machines(s, l.output == "wide", l.sortBy)
				for i := range s.Machines {
					s.Machines[i].TypeMeta = typeMeta("ScalewayAppleSiliconMachine")
				}
				return listing{table, "scalewayapplesiliconmachine", s.Machines, "No Machine is as asked for."}, err
			})
		},
	}
	l.add(cmd, machinePhases())
	return cmd
}

// machinePhases are ours, and Cluster API's own word for a Machine that it drains.
func machinePhases() []string {
	return []string{
		machine.PhasePending, machine.PhaseClaimed, machine.PhaseBootstrap, machine.PhaseJoining, machine.PhaseRunning,
		machine.PhaseNotReady, machine.PhaseUnreachable, machine.PhaseLost, machine.PhaseReleasing, show.Deleting,
	}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: kind}
}

// listing is what a lister found, in each of its forms.
type listing struct {
	table   screen.Table
	kind    string
	objects any
	nothing string
}

func (l *lister) run(cmd *cobra.Command, kinds []snapshot.Kind, find func(*snapshot.Snapshot, func(metav1.Object, string) bool) (listing, error)) error {
	selected, err := l.selects()
	if err := errors.Join(l.checkOutput(), err); err != nil {
		return err
	}
	c, s, err := l.load(cmd.Context(), kinds...)
	if err != nil {
		return err
	}
	if err := withNodes(cmd.Context(), c, s); err != nil {
		return err
	}
	found, err := find(s, selected)
	if err != nil {
		return usageError{err}
	}
	if err := l.print(cmd, found); err != nil {
		return err
	}
	return sayMissing(cmd.ErrOrStderr(), s.Missing)
}

func (l *lister) print(cmd *cobra.Command, found listing) error {
	switch l.output {
	case "json", "yaml":
		return write(cmd.OutOrStdout(), l.output, map[string]any{"apiVersion": "v1", "kind": "List", "items": found.objects})
	case "name":
		for _, row := range found.table.Rows {
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s/%s\n", found.kind, row[0].Text); err != nil {
				return err
			}
		}
		return nil
	}
	return printTable(cmd, found.table, found.nothing)
}
