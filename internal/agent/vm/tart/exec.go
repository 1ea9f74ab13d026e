package tart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// exitState is tart's code for: does not exist, is not running, is already
	// running.
	exitState = 2
	// outputLimit bounds what is kept of a command's output, in bytes.
	outputLimit = 1 << 20
	// messageLimit bounds what of it goes into an error, in bytes.
	messageLimit = 512
	// interruptGrace is how long a cancelled command may clean up after SIGINT.
	interruptGrace = 3 * time.Second
)

// tart runs one command and returns its standard output.
func (d *Driver) tart(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, d.path, args...)
	cmd.Env = d.environ
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = interruptGrace
	// A group of its own: a signal to the agent's group must not tear a clone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stdout, stderr bounded
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case err == nil:
		return stdout.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	return "", failure(err, stderr.String()+stdout.String())
}

// failure turns the end of a command into an error of package vm, where tart's
// text or exit code says which.
func failure(err error, output string) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("%w: %w", vm.ErrUnusable, err)
	}
	message := oneLine(output)
	if kind := kindOf(exit.ExitCode(), output); kind != nil {
		return fmt.Errorf("%w: tart says %q", kind, message)
	}
	return fmt.Errorf("tart exited with %d and says %q", exit.ExitCode(), message)
}

func kindOf(code int, output string) error {
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(output, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("No space left on device", "NSPOSIXErrorDomain Code=28", "ENOSPC"):
		return vm.ErrNoSpace
	case has("code: 401", "code: 403", "AuthFailed"):
		return vm.ErrAuth
	case has("code: 404"):
		return vm.ErrImageNotFound
	case has("is running"):
		return vm.ErrRunning
	case code == exitState && has("does not exist"):
		return vm.ErrNotFound
	}
	return nil
}

// oneLine is the end of an output on one line, bounded.
func oneLine(output string) string {
	line := strings.Join(strings.Fields(output), " ")
	if len(line) > messageLimit {
		line = "…" + line[len(line)-messageLimit:]
	}
	return strings.ToValidUTF8(line, "?")
}

// bounded keeps the first bytes of an output and takes the rest silently.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := outputLimit - b.Len(); room > 0 {
		_, _ = b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
