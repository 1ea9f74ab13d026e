package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newHost holds what an operator does to one Mac by hand.
func newHost() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host",
		Short: "What to do to one Mac by hand",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q: see %s --help", args[0], cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPrepare("prepare"))
	return cmd
}
