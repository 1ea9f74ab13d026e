package macos

import (
	"os"
	"slices"
	"strings"
	"testing"
)

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
