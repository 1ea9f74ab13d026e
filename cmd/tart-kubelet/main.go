// Command tart-kubelet is the agent on a Mac: `run` makes the Mac a node that runs
// Pods as macOS VMs, `converge` brings the Mac to the state that is wanted of it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/macfleet/macfleet/internal/agent"
	"github.com/macfleet/macfleet/internal/converge"
	"github.com/macfleet/macfleet/internal/converge/doctor"
	"github.com/macfleet/macfleet/internal/converge/hostd"
)

// version is set when a release is linked.
var version = "v0.1.0-dev"

// exitFailure is for errors that have no code of their own.
const exitFailure = 1

func main() {
	root := newRoot()
	if err := root.Execute(); err != nil {
		complain(err)
		os.Exit(exitCode(err))
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "tart-kubelet",
		Short:         "Make a Mac a Kubernetes node, and keep it one",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return agent.UsageError{Err: fmt.Errorf("unknown command %q", args[0])}
			}
			return nil
		},
		// It does nothing unless launchd started this with one of our logs.
		PersistentPreRun: func(c *cobra.Command, _ []string) { go converge.FollowErrorLog(c.Context()) },
		RunE:             func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return agent.UsageError{Err: err} })
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(agent.Commands(version)...)
	root.AddCommand(converge.Commands()...)
	root.AddCommand(hostd.Command())
	root.AddCommand(doctor.Command(), versionCommand())
	return root
}

// complain prints an error, unless the command has said everything in its report.
func complain(err error) {
	var reported *converge.ExitError
	if errors.As(err, &reported) && reported.Err == nil {
		return
	}
	_, _ = fmt.Fprintln(os.Stderr, "tart-kubelet:", err)
}

// exitCode is the error's own, where it has one.
func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return exitFailure
}

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Say which version and build this is",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			build := agent.Build(os.Args[0])
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(map[string]string{"version": version, "build": build})
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), version, build)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
