// Command macfleet is the operator's tool; as kubectl-macfleet it is a kubectl
// plugin. It shows a fleet of any cluster and says what to do, prepares Macs by hand, and
// holds the sandbox: the whole system on one Linux machine, with a simulated vendor and
// simulated Macs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/macfleet/macfleet/internal/cli/act"
)

// Exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitPartly      = 3 // shown, but for what may not be read
	exitInterrupted = 130
)

// version is set at build time.
var version = "dev"

func main() {
	log.SetLogger(logr.Discard()) // what a person has to know a verb says; unset, the library prints where it is missed
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError is a mistake in what was typed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitError carries the exit code of a program that was run for the user.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// run runs the command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	return execute(ctx, root, stdout, stderr)
}

// execute runs the command and tells its error in one line.
func execute(ctx context.Context, root *cobra.Command, stdout, stderr io.Writer) int {
	root.SetOut(stdout)
	root.SetErr(stderr)
	help, unknown := root.HelpFunc(), error(nil)
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if unknown = unknownTopic(cmd); unknown == nil {
			help(cmd, args)
		}
	})
	err := errors.Join(root.ExecuteContext(ctx), unknown)
	var exited exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exited):
		return exited.code
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "macfleet: %s\n", interruption(err))
		return exitInterrupted
	}
	fmt.Fprintf(stderr, "macfleet: %s\n", oneLine(err))
	if errors.As(err, &usageError{}) {
		return exitUsage
	}
	return exitFailed
}

// interruption is what a person reads who ended a verb: no reason, for it is theirs, but what is
// done already, such as how a Mac is to be let go.
func interruption(err error) string {
	if partly, is := errors.AsType[act.PartlyError](err); is {
		return "interrupted: " + oneLine(partly)
	}
	return "interrupted"
}

// helpTemplate is cobra's, but that what a verb does stands above what more there is to say of it.
const helpTemplate = `{{with .Short}}{{.}}.

{{end}}{{with .Long}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "macfleet",
		Short:         "Apple-silicon Macs as Kubernetes nodes",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text, _, _ := strings.Cut(err.Error(), ": strconv.") // how Go parses is no help
		return usageError{fmt.Errorf("%s: see %s --help", text, cmd.CommandPath())}
	})
	root.TraverseChildren = true // so that --dir is ours also before "kubectl"
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpTemplate(helpTemplate)
	root.SetHelpCommand(newHelp())
	root.AddCommand(newFleetStatus(), newHosts(), newMachines(), newExplain(), newTimeline(), newRollout(), newMachine(), newFleet(), newCluster(), newBoard(), newPool(), newCompletion())
	root.AddCommand(newSandbox(), newHost(), newVNC(), newPrepareFleetHost(), &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), version) },
	})
	return root
}
