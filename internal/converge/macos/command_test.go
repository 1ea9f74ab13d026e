package macos

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A descendant that holds the output of a command keeps nobody: neither after the
// deadline nor after the command's own end.
func TestCommandsEndWithoutTheirDescendants(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script   string
		deadline time.Duration
		said     string
		err      error
	}{
		"at its deadline": {"sleep 60 & echo said; wait", 100 * time.Millisecond, "", context.DeadlineExceeded},
		"at its own end":  {"sleep 60 & echo said; sleep 5", time.Hour, "said\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			defer cancel()
			began := time.Now()
			out, err := run(ctx, "/bin/sh", "-c", c.script)
			if out != c.said || !errors.Is(err, c.err) {
				t.Errorf("said %q, %v", out, err)
			}
			if took := time.Since(began); took > 10*outputDeadline {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// What the caller has in his environment reaches no command of root's.
func TestCommandsHaveAnEnvironmentOfTheirOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it is root's commands that have one")
	}
	for _, name := range []string{"PATH", "HOME", "DYLD_INSERT_LIBRARIES", "LD_PRELOAD", "TART_HOME", "GODEBUG", "LC_ALL", "BASH_ENV", "SSH_AUTH_SOCK"} {
		t.Setenv(name, "/nowhere/mine")
	}
	out, err := run(t.Context(), "/usr/bin/env")
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Fields(out), environment(0)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("a command has %q, want %q", got, want)
	}
}
