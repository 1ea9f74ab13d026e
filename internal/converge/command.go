package converge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

// ExitError ends the program with a code other than 1. What there is to say was
// said in the report; Err, when set, is for people.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is the code to exit with.
func (e *ExitError) ExitCode() int { return e.Code }

// Commands returns the verbs that run on this Mac: converge, upgrade, leave and
// uninstall, each of which writes one report line to its standard output and returns nil
// or an *ExitError; and report, which prints the last of these lines.
func Commands() []*cobra.Command {
	return []*cobra.Command{convergeCommand(), upgradeCommand(), leaveCommand(), uninstallCommand(), reportCommand()}
}

// signedHelp is what --signed means, the same for all verbs that know it.
const signedHelp = "do what the signed instruction on standard input says; the only form that sudo allows without a password"

var errAlone = errors.New("--signed goes with no other flag: the instruction says all")

func convergeCommand() *cobra.Command {
	var (
		o               Options
		explain, signed bool
	)
	cmd := &cobra.Command{
		Use:   "converge < desired.json",
		Short: "make this Mac what the desired document on standard input asks for",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if explain {
				_, err := fmt.Fprint(cmd.OutOrStdout(), explanation())
				return err
			}
			// First of all: which file this program is must not be asked after a wait
			// that the caller can end when he likes.
			if err := useThisMac(&o); err != nil {
				return usage(err)
			}
			if signed && cmd.Flags().NFlag() > 1 {
				return usage(errAlone)
			}
			if signed {
				return runInstruction(cmd, o, document.VerbConverge)
			}
			d, err := document.DecodeDesired(cmd.InOrStdin())
			if err != nil {
				return usage(err)
			}
			r, err := Run(cmd.Context(), o, d)
			if err != nil {
				return usage(err)
			}
			return reboot(cmd.Context(), o, r, writeReport(cmd.OutOrStdout(), r))
		},
	}
	cmd.Flags().BoolVar(&o.Plan, "plan", false, "say what would change, and change nothing")
	cmd.Flags().StringVar(&o.Step, "step", "", "run this step only")
	cmd.Flags().BoolVar(&o.TakeOver, "take-over", false, "also retire what an older system left on this Mac")
	cmd.Flags().BoolVar(&signed, "signed", false, signedHelp)
	cmd.Flags().BoolVar(&explain, "explain", false, "say what each step changes and how to undo it, and do nothing")
	return silenced(cmd)
}

func upgradeCommand() *cobra.Command {
	return onThisMac("upgrade < instruction.json", "take a staged build that the fleet's key has signed into its install dir, as the next one",
		func(cmd *cobra.Command, o Options) error { return runInstruction(cmd, o, document.VerbUpgrade) })
}

func uninstallCommand() *cobra.Command {
	var force, signed bool
	cmd := onThisMac("uninstall", "take back what converge did to this Mac", func(cmd *cobra.Command, o Options) error {
		switch {
		case signed && force:
			return usage(errAlone)
		case signed:
			return runInstruction(cmd, o, document.VerbUninstall)
		}
		return writeReport(cmd.OutOrStdout(), uninstall(cmd.Context(), o, force))
	})
	cmd.Flags().BoolVar(&force, "force", false, "also while guests run")
	cmd.Flags().BoolVar(&signed, "signed", false, signedHelp)
	return cmd
}

func leaveCommand() *cobra.Command {
	var signed bool
	cmd := onThisMac("leave", "stop the agent and remove its credentials from this Mac", func(cmd *cobra.Command, o Options) error {
		if signed {
			return runInstruction(cmd, o, document.VerbLeave)
		}
		return writeReport(cmd.OutOrStdout(), leave(cmd.Context(), o))
	})
	cmd.Flags().BoolVar(&signed, "signed", false, signedHelp)
	return cmd
}

// onThisMac is a verb that root runs on the Mac itself.
func onThisMac(use, short string, run func(*cobra.Command, Options) error) *cobra.Command {
	return silenced(&cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var o Options
			if err := useThisMac(&o); err != nil {
				return usage(err)
			}
			return run(cmd, o)
		},
	})
}

// runInstruction reads an instruction for the verb, and does what it says.
func runInstruction(cmd *cobra.Command, o Options, verb string) error {
	i, err := document.DecodeSigned(cmd.InOrStdin())
	if err != nil {
		return usage(err)
	}
	if i.Verb != verb {
		return usage(fmt.Errorf("the instruction is for the verb %.64q, not for %s", i.Verb, verb))
	}
	r := carryOut(cmd.Context(), o, i)
	return reboot(cmd.Context(), o, r, writeReport(cmd.OutOrStdout(), r))
}

// silenced keeps cobra from printing its usage over the report's channel.
func silenced(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceUsage = true
	cmd.SilenceErrors = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	return cmd
}

func usage(err error) error { return &ExitError{Code: document.ExitUsage, Err: err} }

func useThisMac(o *Options) error {
	if os.Geteuid() != 0 {
		return errors.New("only root can do this")
	}
	o.Mac = macos.Local()
	// sudo keeps the SSH user's HOME on macOS. Without one, only the program's
	// own file is looked at.
	o.Home = os.Getenv("HOME")
	o.Invoker = os.Getenv("SUDO_USER")
	self, err := programPath(macos.Started())
	if err != nil {
		return err
	}
	o.Self = self
	return nil
}

// programPath is the file this program was started as, links resolved: a staged
// build or an installed one. The path is used and not the running image, since
// the path is what was verified and named by its hash.
func programPath(argv0 string) (string, error) {
	if !strings.ContainsRune(argv0, filepath.Separator) {
		found, err := exec.LookPath(argv0)
		if err != nil {
			return "", fmt.Errorf("finding the program's file: %w", err)
		}
		argv0 = found
	}
	abs, err := filepath.Abs(argv0)
	if err != nil {
		return "", fmt.Errorf("finding the program's file: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, os.ErrNotExist) {
		// It was replaced since; the install dir or the staging folder may still have it.
		return abs, nil
	}
	return resolved, err
}

// writeReport writes the report and turns its exit code into what the program returns.
func writeReport(w io.Writer, r document.Report) error {
	line, err := document.EncodeReport(r)
	if err != nil {
		return &ExitError{Code: document.ExitBug, Err: err}
	}
	if _, err := w.Write(line); err != nil {
		return &ExitError{Code: document.ExitRetry, Err: fmt.Errorf("writing the report: %w", err)}
	}
	if r.Exit == document.ExitUnchanged {
		return nil
	}
	exit := &ExitError{Code: r.Exit}
	if s, failed := r.FailedStep(); failed {
		exit.Err = fmt.Errorf("%s: step %s failed (%s): %s", r.Verb, s.Name, s.Class, s.Detail)
	}
	return exit
}

// reboot makes the reboot of a report that says so, now that the report was told:
// connection and program may end within it, so that nobody learns how the program
// ended. told is that end.
func reboot(ctx context.Context, o Options, r document.Report, told error) error {
	if !r.Rebooting {
		return told
	}
	if err := o.Mac.System.Reboot(ctx); err != nil {
		return &ExitError{Code: document.ExitRetry, Err: fmt.Errorf("rebooting the Mac: %w", err)}
	}
	return told
}

// reportCommand is for who may not read the file: it is root's.
func reportCommand() *cobra.Command {
	var o Options
	return &cobra.Command{
		Use:   "report",
		Short: "print what the last run of converge recorded, one JSON line",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := useThisMac(&o); err != nil {
				return usage(err)
			}
			return printReport(cmd.OutOrStdout(), o.Mac.Files)
		},
	}
}

func printReport(out io.Writer, files macos.Files) error {
	file, err := files.Open(document.ReportFile)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("no converge has run on this Mac")
	}
	if err != nil {
		return fmt.Errorf("reading the last report: %w", err)
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(out, file)
	return err
}
