package tart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// exitState is tart's code for: does not exist, is not running, is already
	// running.
	exitState = 2
	// outputLimit bounds what is kept of a command's output, in bytes, at each end.
	outputLimit = 4 << 20
	// messageLimit bounds what of it goes into an error, in bytes.
	messageLimit = 512
	// interruptGrace is how long a cancelled command may clean up after SIGINT.
	interruptGrace = 3 * time.Second
)

// command is one call of tart.
type command struct {
	args []string
	// env is added to what all have.
	env []string
	// inherit is a file that lives as long as the command does.
	inherit *os.File
	// watch sees standard output as it comes. May be nil.
	watch io.Writer
	// secrets are kept out of errors.
	secrets []string
	// abrupt has it killed rather than interrupted when it is to end.
	abrupt bool
}

// tart runs one command and returns its standard output.
func (d *Driver) tart(ctx context.Context, args ...string) (string, error) {
	return d.run(ctx, command{args: args})
}

func (d *Driver) run(ctx context.Context, c command) (string, error) {
	if !slices.Contains([]string{"pull", "clone"}, c.args[0]) {
		// It begins with removing what nobody has locked.
		d.leftovers.keep()
	}
	cmd := exec.CommandContext(ctx, d.path, c.args...)
	cmd.Env = slices.Concat(d.environ, c.env)
	if !c.abrupt {
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	}
	cmd.WaitDelay = interruptGrace
	// A group of its own: a signal to the agent's group must not tear a clone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.inherit != nil {
		cmd.ExtraFiles = []*os.File{c.inherit}
	}
	var stdout, stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if c.watch != nil {
		cmd.Stdout = io.MultiWriter(&stdout, c.watch)
	}
	err := cmd.Run()
	switch {
	case err == nil:
		if stdout.cut {
			return "", fmt.Errorf("tart %s printed more than %d bytes", c.args[0], outputLimit)
		}
		return stdout.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	output := stdout.String() + "\n" + stderr.String()
	for _, s := range c.secrets {
		if s != "" {
			output = strings.ReplaceAll(output, s, "…")
		}
	}
	err = failure(err, output)
	if errors.Is(err, vm.ErrNoSpace) {
		d.leftovers.removeAll()
	}
	return "", err
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
	if exit.ExitCode() < 0 {
		return fmt.Errorf("tart was ended by a signal (%w) and says %q", exit, message)
	}
	return fmt.Errorf("tart exited with %d and says %q", exit.ExitCode(), message)
}

// errBigger: a disk is bigger already than what it is to grow to.
var errBigger = errors.New("the disk is bigger already")

func kindOf(code int, output string) error {
	has := func(words ...string) bool { return hasAny(output, words) }
	switch {
	case full(output):
		return vm.ErrNoSpace
	case has("code: 401", "code: 403", "AuthFailed"):
		return vm.ErrAuth
	case has("code: 404"):
		return vm.ErrImageNotFound
	case has("is running"):
		return vm.ErrRunning
	case has("should be larger than the current", "shrinks the stacked disk"):
		return errBigger
	case has("failed to parse remote name"):
		return vm.ErrInvalidReference
	case code == exitState && has("does not exist"):
		return vm.ErrNotFound
	}
	return nil
}

// full reports whether a full volume is what tart met, in its own words or macOS's.
func full(output string) bool {
	return hasAny(output, []string{
		"No space left on device", "NSPOSIXErrorDomain Code=28", "NSCocoaErrorDomain Code=640", "ENOSPC", "enough space", "out of space",
	})
}

func hasAny(output string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(output, w) })
}

// oneLine is the end of an output on one line, bounded.
func oneLine(output string) string {
	line := strings.Join(strings.Fields(output), " ")
	if len(line) > messageLimit {
		line = "…" + line[len(line)-messageLimit:]
	}
	return strings.ToValidUTF8(line, "?")
}

// tail keeps the last bytes of an output: an error stands at its end.
type tail struct {
	bytes.Buffer
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	_, _ = t.Buffer.Write(p)
	if t.Len() > 2*outputLimit {
		t.cut = true
		t.Next(t.Len() - outputLimit)
	}
	return len(p), nil
}
