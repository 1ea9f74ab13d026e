package main

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newKubectl(flags *sandboxFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [arguments]",
		Short: "kubectl on the sandbox's cluster",
		Long: "Runs kubectl, of the version of the sandbox's cluster and with its kubeconfig. --dir is taken wherever\n" +
			"it stands before a --; every other flag is kubectl's, which has its own help once a sandbox runs.",
		Example: "  macfleet sandbox kubectl get nodes\n  macfleet sandbox kubectl logs -f job/tests",
		// Every flag is kubectl's; only --dir is ours, wherever it stands.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := flags.takeDir(args)
			if err != nil {
				return err
			}
			running, err := flags.running()
			if errors.Is(err, errNoSandbox) && asksHelp(args) {
				return cmd.Help()
			}
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

// asksHelp says whether kubectl would print help, of which none is to be had without the
// kubectl of a sandbox.
func asksHelp(args []string) bool {
	if before := slices.Index(args, "--"); before >= 0 {
		args = args[:before]
	}
	return len(args) > 0 && args[0] == "help" || slices.Contains(args, "--help") || slices.Contains(args, "-h")
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
