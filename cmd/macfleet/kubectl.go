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
		// Every flag is kubectl's; only --dir is ours, wherever it stands.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := flags.takeDir(args)
			if err != nil {
				return err
			}
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

// takeDir takes --dir out of kubectl's arguments, which have none of this name.
// What follows two dashes is for a program in a Pod, and stays.
func (f *sandboxFlags) takeDir(args []string) ([]string, error) {
	var left []string
	for i := 0; i < len(args); i++ {
		dir, found := strings.CutPrefix(args[i], "--dir=")
		switch {
		case args[i] == "--":
			return append(left, args[i:]...), nil
		case found:
			f.dir = dir
		case args[i] != "--dir":
			left = append(left, args[i])
		case i+1 == len(args):
			return nil, usageError{errors.New("flag needs an argument: --dir: see macfleet sandbox --help")}
		default:
			i++
			f.dir = args[i]
		}
	}
	return left, nil
}
