package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/show"
)

func newStatus(flags *sandboxFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Where the sandbox answers, and its fleet on one screen",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			running, err := flags.running()
			if err != nil {
				return err
			}
			c, err := newClient(running.Kubeconfig)
			if err != nil {
				return err
			}
			// Where to look comes first: the API server may be what is away.
			fmt.Fprintf(cmd.OutOrStdout(), "kubeconfig  %s\nvendor      %s\nmetrics     %s\nssh port    %d\nmanager     %s\n\n",
				running.Kubeconfig, running.VendorURL, running.MetricsURL, running.SSHPort, managerNow(cmd.Context(), running.ReadyURL))
			return printSandbox(cmd, c)
		},
	}
}

// printSandbox prints what macfleet status, hosts and machines do.
func printSandbox(cmd *cobra.Command, c client.Client) error {
	s, err := loadStatus(cmd.Context(), c, metav1.NamespaceAll)
	if err != nil {
		return fmt.Errorf("reading from the sandbox's API server: %w", err)
	}
	if err := show.StatusOf(s, reasons.Read()).Write(cmd.OutOrStdout(), screenOf(cmd)); err != nil {
		return err
	}
	hosts, err := show.Hosts(s.Hosts, s.At, true, "")
	if err != nil {
		return err
	}
	machines, err := show.Machines(s, false, "")
	if err != nil {
		return err
	}
	for _, table := range []screen.Table{hosts, machines} {
		fmt.Fprintln(cmd.OutOrStdout())
		if err := table.Write(cmd.OutOrStdout(), screenOf(cmd)); err != nil {
			return err
		}
	}
	return nil
}

// managerPatience is how long a manager may take to say that it runs.
const managerPatience = 5 * time.Second

// managerNow says whether the manager runs: whether it answers at ready.
func managerNow(ctx context.Context, ready string) string {
	ctx, cancel := context.WithTimeout(ctx, managerPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, ready, nil)
	if err != nil {
		return "unknown: " + oneLine(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "does not run, and is started again until it does: logs/manager-1.log and logs/sandbox.log say why"
	}
	defer response.Body.Close()
	return "runs"
}
