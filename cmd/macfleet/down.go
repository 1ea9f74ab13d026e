package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/macfleet/macfleet/sandbox/world"
)

// lockPoll is how often `down` looks whether the sandbox has stopped.
const lockPoll = 100 * time.Millisecond

func newDown(flags *sandboxFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the sandbox and remove everything it wrote",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := newProgress(cmd.OutOrStdout())
			defer p.end()
			return down(cmd.Context(), flags, p)
		},
	}
}

func down(ctx context.Context, flags *sandboxFlags, p *progress) error {
	dir, err := flags.stateDir()
	if err != nil {
		return err
	}
	running, err := flags.running()
	switch {
	case errors.Is(err, errNoSandbox):
		p.done("no sandbox runs here")
	case err != nil:
		return err
	default:
		p.step("stopping the sandbox")
		if err := stopProcess(ctx, running.PID, dir); err != nil {
			return err
		}
		p.done("the sandbox is stopped")
	}
	return removeStopped(dir)
}

func stopProcess(ctx context.Context, pid int, dir string) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping the sandbox (process %d): %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout+lockPoll)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, lockPoll, true, func(context.Context) (bool, error) {
		held, err := lockHeld(dir)
		return !held, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the sandbox to stop (process %d, see %s): %w", pid, filepath.Join(dir, "logs", "sandbox.log"), err)
	}
	return nil
}

// removeStopped removes what a stopped sandbox left. It refuses a directory that
// does not look like one: --dir may be a slip.
func removeStopped(dir string) error {
	if err := onlyOfSandbox(dir); err != nil {
		return fmt.Errorf("%w: nothing is removed", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the sandbox's directory: %w", err)
	}
	return ignoreMissing(os.Remove(lockPath(dir)))
}

// onlyOfSandbox refuses a directory that holds something that no sandbox writes.
func onlyOfSandbox(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("looking into the sandbox's directory: %w", err)
	}
	for _, entry := range entries {
		if !ofSandbox(entry.Name()) {
			return fmt.Errorf("%s holds %s, which is not the sandbox's", dir, entry.Name())
		}
	}
	return nil
}

// ofSandbox tells whether a sandbox writes such a file or folder.
func ofSandbox(name string) bool {
	return world.Owns(name) || slices.Contains([]string{"ended", "state.json", "state.json.new"}, name)
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
