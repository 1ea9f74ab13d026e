package main

import (
	"errors"
	"os"
	"os/exec"

	"github.com/spf13/cobra"
)

func newKubectl(flags *sandboxFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [arguments]",
		Short: "kubectl on the sandbox's cluster",
		// Every flag is kubectl's; ours (--dir) stands before the word kubectl.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			running, err := flags.running()
			if err != nil {
				return err
			}
			kubectl := running.Binaries.Cluster.Kubectl(cmd.Context(), running.Kubeconfig, args...)
			kubectl.Stdin, kubectl.Stdout, kubectl.Stderr = os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr()
			err = kubectl.Run()
			var exited *exec.ExitError
			if errors.As(err, &exited) {
				return exitError{code: exited.ExitCode()}
			}
			return err
		},
	}
}
