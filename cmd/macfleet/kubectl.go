package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
)

func newKubectl(flags *sandboxFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [arguments]",
		Short: "kubectl on the sandbox's cluster",
		// Every flag is kubectl's; only --dir, as the first one, is ours.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			args = flags.takeDir(args)
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

// takeDir takes --dir off the front of kubectl's arguments.
func (f *sandboxFlags) takeDir(args []string) []string {
	if len(args) > 1 && args[0] == "--dir" {
		f.dir = args[1]
		return args[2:]
	}
	if len(args) > 0 {
		if dir, found := strings.CutPrefix(args[0], "--dir="); found {
			f.dir = dir
			return args[1:]
		}
	}
	return args
}
