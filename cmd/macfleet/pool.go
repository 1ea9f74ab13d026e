package main

import (
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/cost"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

func newPool() *cobra.Command {
	cmd := group("pool", "What the pool costs, what is on order, and the vendor's key")
	cmd.AddCommand(newPoolCost(), newPoolOrder(), newPoolCredentials())
	return cmd
}

func newPoolCost() *cobra.Command {
	var v verb
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "What is billed, until when at least, and what could be given back without a loss",
		Long: "Sums up the Macs that the vendor bills, by type. The prices are the vendor's public ones of a day that is\n" +
			"printed with them, without tax; yours may differ.",
		Example: "  macfleet pool cost\n  macfleet pool cost -o json | jq .day",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := v.checkOutput(); err != nil {
				return err
			}
			_, s, err := v.load(cmd.Context(), snapshot.Hosts)
			if err != nil {
				return err
			}
			pool := cost.Of(s.Hosts, s.At)
			if v.output != "" {
				return write(cmd.OutOrStdout(), v.output, pool)
			}
			return pool.Write(cmd.OutOrStdout(), screenOf(cmd))
		},
	}
	v.add(cmd, "json", "yaml")
	return cmd
}

func newPoolOrder() *cobra.Command {
	var l lister
	cmd := &cobra.Command{
		Use:     "order",
		Aliases: []string{"orders"},
		Short:   "The servers that are being ordered, and what is in the way",
		Long: "Lists the orders that are no servers yet, with what the vendor says of them, and the servers that it has not\n" +
			"delivered. What may not be ordered at all, as beyond a profile's maxOrdered, is no order yet: `macfleet status`\n" +
			"names the Machines that wait for that.",
		Example: "  macfleet pool order -o wide",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return l.run(cmd, []snapshot.Kind{snapshot.Hosts}, func(s *snapshot.Snapshot, selected func(metav1.Object, string) bool) (listing, error) {
				orders := []infrav1.ScalewayAppleSiliconHost{}
				for _, h := range s.Hosts {
					if (h.Spec.Order != nil || show.Undelivered(&h)) && selected(&h, string(h.Status.Phase)) {
						h.TypeMeta = typeMeta("ScalewayAppleSiliconHost")
						orders = append(orders, h)
					}
				}
				table, err := show.Orders(orders, s.At, l.output == "wide", l.sortBy)
				return listing{table, "scalewayapplesiliconhost", orders, "No server is on order."}, err
			})
		},
	}
	l.add(cmd, show.HostPhases())
	return cmd
}
