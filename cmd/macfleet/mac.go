package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

func newMac(flags *sandboxFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "mac off|on SERVER",
		Short: "Pull the plug of a simulated Mac, or put it back",
		Long: "Turns a simulated Mac off or on, as if somebody pulled its plug: the vendor shows the server as\n" +
			"ready all the while, and the disk stays. SERVER is the server's name or identifier.",
		Example: "  macfleet sandbox mac off tuist-pool-04",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] != "off" && args[0] != "on" {
				return usageError{fmt.Errorf("say off or on, and which server: see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted := map[string]bool{"on": args[0] == "on"}
			err := flags.control(cmd.Context(), http.MethodPut, "/sandbox/macs/"+url.PathEscape(args[1]), wanted, nil)
			var refused *refusal
			if errors.As(err, &refused) && refused.status == http.StatusNotFound {
				return usageError{fmt.Errorf("%w: the names are in the column SERVER of `%s`", refused, flags.command("status"))}
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the Mac of %s is %s\n", args[1], args[0])
			return nil
		},
	}
}
