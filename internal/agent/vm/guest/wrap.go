package guest

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // the wrapper
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// wrapper runs a command below a shell, for agents that give no exact exit codes.
//
//go:embed wrapper.sh
var wrapper string

// shellName is what a shell takes for the name of a variable.
var shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// execWrapped runs a command through the wrapper. A variable is never an argument: it
// goes in by the standard input, before the command's own.
func (c *Client) execWrapped(ctx context.Context, g vm.GuestCommand, s vm.Streams, env map[string]string, a abilities) (int, error) {
	cmd := &command{
		name: "/bin/sh", interactive: s.Stdin != nil,
		tty: g.TTY, size: terminalSize{rows: g.Size.Rows, cols: g.Size.Cols},
	}
	header, headed := "", "no"
	if a.env {
		cmd.env = env
	} else if len(env) > 0 {
		var err error
		if header, err = heading(env, g.TTY); err != nil {
			return 0, err
		}
		headed, cmd.interactive = "yes", true
		s.Stdin = io.MultiReader(strings.NewReader(header), orEmpty(s.Stdin))
	}
	// The word with which the wrapper says that there is no such command.
	refusal := "macfleet-" + rand.Text()
	cmd.args = append([]string{"-c", wrapper, "sh", refusal, headed, g.Dir}, g.Argv...)
	watch := &firstBytes{to: s.Stderr, limit: len(refusal) + 2, want: refusal}
	if g.TTY {
		watch.to = s.Stdout
		s.Stdout = watch
	} else {
		s.Stderr = watch
	}
	end, err := c.call(ctx, cmd, s)
	switch {
	case errors.Is(err, vm.ErrNotExecuted):
		// Not the shell, which did start a moment ago: old agents fail like this when
		// a command ends while its output is read.
		return 0, fmt.Errorf("%w: %w", vm.ErrLost, unlost{err})
	case err != nil:
		return 0, err
	case watch.matched():
		return 0, fmt.Errorf("starting %q: %w", g.Argv[0], vm.ErrNotExecuted)
	case end.code < 0:
		return 0, fmt.Errorf("the shell of a command in the guest was killed: %w", vm.ErrLost)
	}
	return end.code, watch.flush()
}

// heading is the environment as the wrapper reads it: a name and an encoded value
// a line, then an empty line.
func heading(env map[string]string, tty bool) (string, error) {
	if tty {
		return "", fmt.Errorf("the guest agent is too old to give a command on a terminal an environment: %w", vm.ErrNotExecuted)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !shellName.MatchString(name) {
			return "", fmt.Errorf("the guest agent is too old to take the environment variable %q: %w", name, vm.ErrNotExecuted)
		}
		b.WriteString(name + "\n" + encode(env[name]) + "\n")
	}
	return b.String() + "\n", nil
}

// encode writes a value for printf's %b, on one line.
func encode(value string) string {
	return strings.NewReplacer(`\`, `\0134`, "\n", `\012`, "\r", `\015`).Replace(value)
}

func orEmpty(r io.Reader) io.Reader {
	if r == nil {
		return strings.NewReader("")
	}
	return r
}

// firstBytes holds back the beginning of an output until it is clear that it is
// not the wrapper's refusal.
type firstBytes struct {
	to    io.Writer
	want  string
	limit int
	held  bytes.Buffer
	open  bool
}

func (f *firstBytes) Write(p []byte) (int, error) {
	if f.open {
		return len(p), write(f.to, p)
	}
	f.held.Write(p)
	text := strings.TrimRight(f.held.String(), "\r\n")
	if strings.HasPrefix(f.want, text) && f.held.Len() <= f.limit {
		return len(p), nil
	}
	return len(p), f.flush()
}

func (f *firstBytes) matched() bool {
	return !f.open && strings.TrimRight(f.held.String(), "\r\n") == f.want
}

// flush lets go of what is held, and of all that follows.
func (f *firstBytes) flush() error {
	if f.open {
		return nil
	}
	f.open = true
	return write(f.to, f.held.Bytes())
}
