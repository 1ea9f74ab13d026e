package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/macfleet/macfleet/internal/cli/screen"
)

// sandboxFlags are common to all sandbox commands.
type sandboxFlags struct {
	dir string
}

func newSandbox() *cobra.Command {
	flags := &sandboxFlags{}
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "The whole system on this machine, with simulated Macs",
		Long: "A real Kubernetes control plane with Cluster API, the macfleet manager and agents, a\n" +
			"simulated Scaleway and simulated Macs, on one Linux machine, without root.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] != "help" {
				return usageError{fmt.Errorf("unknown command %q: see macfleet sandbox --help", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&flags.dir, "dir", "", "the sandbox's directory (default: $XDG_STATE_HOME/macfleet/sandbox, else ~/.local/state/macfleet/sandbox)")
	cmd.AddCommand(newUp(flags), newServe(flags), newStatus(flags), newKubectl(flags), newDown(flags), newDemo(flags), newTour(flags), newFault(flags), newMac(flags))
	return cmd
}

// stateDir is where the sandbox lives.
func (f *sandboxFlags) stateDir() (string, error) {
	if f.dir != "" {
		return filepath.Abs(f.dir)
	}
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		return filepath.Join(state, "macfleet", "sandbox"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding a place for the sandbox: %w: name one with --dir", err)
	}
	return filepath.Join(home, ".local", "state", "macfleet", "sandbox"), nil
}

// errNoSandbox means that none runs in the directory.
var errNoSandbox = errors.New("no sandbox runs here")

// command is a command of the sandbox in this directory, as it has to be typed.
func (f *sandboxFlags) command(words string) string {
	if f.dir == "" {
		return "macfleet sandbox " + words
	}
	return "macfleet sandbox --dir " + quotedWord(f.dir) + " " + words
}

// quotedWord is a word as a shell takes it.
func quotedWord(word string) string {
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func special(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-+,:@%=", r)
}

// running returns the state of the sandbox that runs in the directory.
func (f *sandboxFlags) running() (state, error) {
	dir, err := f.stateDir()
	if err != nil {
		return state{}, err
	}
	held, err := lockHeld(dir)
	if err != nil {
		return state{}, err
	}
	if !held {
		if why, err := os.ReadFile(endPath(dir)); err == nil {
			return state{}, fmt.Errorf("%w: it ended by itself: %s: start another with %s", errNoSandbox, why, f.command("up"))
		}
		return state{}, fmt.Errorf("%w: start one with %s (looked in %s)", errNoSandbox, f.command("up"), dir)
	}
	s, err := readState(dir)
	if errors.Is(err, errGarbledState) {
		return s, fmt.Errorf("%w: run %s, then up", err, f.command("down"))
	}
	return s, err
}

// oneLine keeps an error to one line, whatever it is made of.
func oneLine(err error) string {
	return screen.Clean(strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}
