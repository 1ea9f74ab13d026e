package guest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func TestNotExecuted(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, _ *agent, c *Client) {
		for _, x := range []struct {
			g    vm.GuestCommand
			want string
		}{
			{vm.GuestCommand{Argv: []string{"/no/such/command"}}, "no such file or directory"},
			{vm.GuestCommand{Argv: []string{"no-such-command", "x"}}, "executable file not found in $PATH"},
			{vm.GuestCommand{Argv: []string{plain}}, "permission denied"},
			{vm.GuestCommand{Argv: []string{"/usr"}}, "permission denied"},
			{vm.GuestCommand{Argv: []string{"true"}, Dir: "/no/such/directory"}, `its working directory "/no/such/directory" cannot be entered`},
			{vm.GuestCommand{}, "it has no name"},
			{vm.GuestCommand{Argv: []string{"echo", "\xff"}}, "argument 1 is not text"},
			{vm.GuestCommand{Argv: []string{"echo"}, Env: []string{"NOVALUE"}}, `environment variable "NOVALUE" is not NAME=text`},
		} {
			code, err := c.Exec(t.Context(), x.g, vm.Streams{})
			if !errors.Is(err, vm.ErrNotExecuted) || errors.Is(err, vm.ErrLost) || err.Error() != vm.ErrNotExecuted.Error()+": "+x.want {
				t.Errorf("%+v: code %d, err %v", x.g, code, err)
			}
		}
	})
}

// A Pod may have its command made of a secret, and what an error says is shown and written down.
func TestNoErrorTellsOfTheCommand(t *testing.T) {
	const secret = "hunter2"
	plain := filepath.Join(t.TempDir(), "deploy --token "+secret)
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := []string{"LONG=" + strings.Repeat("x", 200<<10)}
	each(t, func(t *testing.T, a *agent, c *Client) {
		for why, g := range map[string]vm.GuestCommand{
			"looked up in vain":        {Argv: []string{"deploy --token " + secret}},
			"no such file":             {Argv: []string{"/no/such/" + secret}},
			"not executable":           {Argv: []string{plain}},
			"on a terminal":            {Argv: []string{"deploy --token " + secret}, TTY: true},
			"no text":                  {Argv: []string{"deploy --token " + secret, "\xff"}},
			"its directory is missing": {Argv: []string{secret}, Dir: "/no/such/directory"},
			"its environment is long":  {Argv: []string{secret}, Env: long},
			// Of others the agent says what it likes: who has a command run bare knows that.
			"bare, with variables": {Argv: []string{secret}, Env: []string{"A=b"}, Bare: a.generation == oldest},
			"bare":                 {Argv: []string{secret}, Bare: a.generation == newest},
		} {
			_, err := c.Exec(t.Context(), g, vm.Streams{})
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: err %v", why, err)
			}
		}
	})
}

// Bare, the agent itself says that it cannot start a command.
func TestNotExecutedBare(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		code, err := c.Exec(t.Context(), vm.GuestCommand{Argv: []string{"/no/such/command"}, Bare: true}, vm.Streams{})
		if !errors.Is(err, vm.ErrNotExecuted) {
			t.Errorf("code %d, err %v", code, err)
		}
	})
}

// What is too long for a process is told as far as an agent knows: the oldest have it go in by
// the input, so that a shell says so, and the next fail as they do with a command that ran.
func TestNotExecutedForItsLength(t *testing.T) {
	long := sh("true")
	long.Env = []string{"LONG=" + strings.Repeat("x", 200<<10)}
	each(t, func(t *testing.T, a *agent, c *Client) {
		code, err := c.Exec(t.Context(), long, vm.Streams{})
		switch want := map[generation]error{middle: vm.ErrLost, newest: vm.ErrNotExecuted}[a.generation]; {
		case !errors.Is(err, want):
			t.Errorf("code %d, err %v, want %v", code, err, want)
		case want == nil && code != 126:
			t.Errorf("code %d", code)
		}
	})
}

// Agents that would run a command without the environment or the directory that it is to
// have do not get it, where neither can go in by the input.
func TestNoCommandRunsWithoutItsEnvironment(t *testing.T) {
	for name, g := range map[string]vm.GuestCommand{
		"on a terminal":           {Argv: []string{"/bin/sh", "-c", `[ "$A" = b ]`}, Env: []string{"A=b"}, TTY: true},
		"bare":                    {Argv: []string{"/bin/sh", "-c", `[ "$A" = b ]`}, Env: []string{"A=b"}, Bare: true},
		"bare, and its directory": {Argv: []string{"/bin/sh", "-c", `[ "$(pwd)" = /usr ]`}, Dir: "/usr", Bare: true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, a *agent, c *Client) {
				code, err := c.Exec(t.Context(), g, vm.Streams{})
				if a.generation == oldest {
					if !errors.Is(err, vm.ErrNotExecuted) {
						t.Errorf("code %d, err %v", code, err)
					}
					return
				}
				if code != 0 || err != nil {
					t.Errorf("code %d, err %v", code, err)
				}
			})
		})
	}
}
