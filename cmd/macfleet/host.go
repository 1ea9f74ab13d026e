package main

import "github.com/spf13/cobra"

// newHost holds what an operator does to one Mac by hand.
func newHost() *cobra.Command {
	cmd := group("host", "What to do to one Mac by hand")
	cmd.AddCommand(hostVerbs()...)
	cmd.AddCommand(newPrepare("prepare"), newAccept())
	return cmd
}
