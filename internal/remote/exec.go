package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// maxStderr is how much of a command's complaints is kept to classify it.
	maxStderr = 8 << 10
	// snippetTimeout bounds a snippet; the slowest is a wrong password, which
	// macOS delays.
	snippetTimeout = time.Minute
)

// command is one execution.
type command struct {
	// during says what it is for, in errors.
	during string
	// line is a constant, or made of path characters only.
	line    string
	stdin   io.Reader
	limit   int // of standard output, in bytes
	timeout time.Duration
}

// result of a command.
type result struct {
	stdout []byte
	stderr string
	exit   int // signalled when a signal ended it
}

const (
	// signalled is the exit code of a command that a signal ended.
	signalled = -1
	// maxExit is the highest exit code of a program's own: shells and sudo add the
	// number of a signal to it.
	maxExit = 128
)

// exec runs a command to its end. What arrived before the connection went comes with
// *Lost.
func (s *Session) exec(ctx context.Context, c command) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	channel, err := s.open(ctx)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = channel.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = channel.Close() })
	defer stop()

	stdout := &capped{limit: c.limit, overflow: channel.Close}
	stderr := &capped{limit: maxStderr}
	channel.Stdin, channel.Stdout, channel.Stderr = c.stdin, stdout, stderr
	exit, err := exitCode(channel.Run(c.line))
	switch {
	case stdout.over:
		return result{}, &badAnswer{During: c.during, Reason: fmt.Sprintf("more than %d bytes", c.limit)}
	case ctx.Err() != nil:
		return result{}, fmt.Errorf("%s: %w", c.during, ctx.Err())
	case err != nil:
		return result{stdout: stdout.buf.Bytes(), stderr: stderr.buf.String()}, &Lost{During: c.during, Err: err}
	}
	return result{stdout: stdout.buf.Bytes(), stderr: stderr.buf.String(), exit: exit}, nil
}

// exitCode tells a command that ended from a connection that did.
func exitCode(err error) (int, error) {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Signal() != "":
		return signalled, nil
	case errors.As(err, &exit):
		return exit.ExitStatus(), nil
	}
	return 0, err
}

// capped keeps the first bytes. Beyond the limit it calls overflow, or, without
// one, swallows the rest.
type capped struct {
	buf      bytes.Buffer
	limit    int
	over     bool
	overflow func() error
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.limit - c.buf.Len()
	c.buf.Write(p[:max(0, min(len(p), room))])
	if len(p) <= room {
		return len(p), nil
	}
	if c.overflow == nil {
		return len(p), nil
	}
	c.over = true
	_ = c.overflow()
	return 0, errors.New("too much output")
}

// shell makes a remote command of a snippet and its arguments. sshd hands it to
// whatever login shell the user has; within single quotes all of them mean the
// same, and a snippet holds none.
func shell(snippet string, args ...string) string {
	words := []string{"/bin/sh", "-c", quote(snippet)}
	for _, a := range args {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

func quote(s string) string { return "'" + s + "'" }

// word finds the answer "<label> <word>" among whatever a login shell may have
// printed around it; the last one counts.
func word(stdout []byte, label string) (string, bool) {
	found, ok := "", false
	for line := range strings.SplitSeq(string(stdout), "\n") {
		if rest, is := strings.CutPrefix(line, label+" "); is {
			found, ok = strings.TrimSpace(rest), true
		}
	}
	return found, ok
}
