package macos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// commandDeadline bounds one command; the slowest, bootstrap, takes seconds.
	commandDeadline = 60 * time.Second
	// outputDeadline bounds how long the output of a command stays open after its end: a
	// descendant that goes on may hold it.
	outputDeadline = 5 * time.Second
	maxOutput      = 256 << 10
	maxErrorText   = 200
)

// commandError is a command that ended with a code other than zero.
type commandError struct {
	Command string
	Code    int
	// Text is the first line it said, Complaint all that it said to its standard
	// error.
	Text      string
	Complaint string
}

func (e *commandError) Error() string {
	return fmt.Sprintf("%s: exit %d: %s", e.Command, e.Code, e.Text)
}

// run executes a command by its absolute path and returns its standard output.
// No argument of any command here is a secret.
func run(ctx context.Context, path string, args ...string) (string, error) {
	stdout, stderr, err := execute(ctx, path, "", args...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stdout, &commandError{
			Command: filepath.Base(path), Code: exit.ExitCode(),
			Text:      firstLine(stderr + "\n" + stdout),
			Complaint: stderr,
		}
	}
	return stdout, err
}

// execute runs a command within its deadline and returns what it said. Of one that ended
// with a code other than zero the error is the exec.ExitError.
func execute(ctx context.Context, path, input string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandDeadline)
	defer cancel()
	var out, complaints Bounded
	cmd := exec.CommandContext(ctx, path, args...)
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.Env = environment(os.Geteuid())
	err = finish(cmd)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err == nil || exited {
		return out.String(), complaints.String(), err
	}
	return "", "", fmt.Errorf("%s: %w", filepath.Base(path), err)
}

// finish runs a command to its end, or to its deadline, and waits for none of its
// descendants.
func finish(cmd *exec.Cmd) error {
	cmd.WaitDelay = outputDeadline
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // it ended well itself, and what it said has been read
	}
	return err
}

// environment is what every command here is started with. sudo on macOS keeps HOME,
// PATH and more of the caller's, and the caller may be the console user: no command of
// root's finds its programs, libraries or settings by them.
func environment(uid int) []string {
	if uid != 0 {
		return append(os.Environ(), "LC_ALL=C")
	}
	return []string{
		"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/var/root", "USER=root", "LOGNAME=root", "SHELL=/bin/sh",
		"TMPDIR=/var/tmp", "LC_ALL=C",
	}
}

// firstLine is the first line of s that holds something, cut to a sane length.
func firstLine(s string) string {
	for line := range strings.SplitSeq(s, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			return line[:min(len(line), maxErrorText)]
		}
	}
	return ""
}

// Bounded keeps the first maxOutput bytes and swallows the rest, so that a
// talkative command is not killed by a closed pipe.
type Bounded struct{ buf bytes.Buffer }

func (b *Bounded) Write(p []byte) (int, error) {
	if room := maxOutput - b.buf.Len(); room > 0 {
		b.buf.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (b *Bounded) String() string { return b.buf.String() }
