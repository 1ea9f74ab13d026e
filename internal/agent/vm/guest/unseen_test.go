package guest

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Whoever looks for a process by its arguments, as pgrep -f does, finds the command alone.
func TestACommandIsInNobodysArgumentsButItsOwn(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		marker := "marker-" + rand.Text()
		// Alone: a child that the shell has forked, and that has not become its program, has the shell's arguments.
		list := run(t, c, sh("sleep 0.1; ps -eo args; :", marker), nil)
		found := 0
		for line := range strings.Lines(list.Out) {
			// Other tests' commands may have the wrapper as an argument, at the same time.
			if !strings.Contains(line, marker) {
				continue
			}
			found++
			if strings.Contains(line, "macfleet_") && len(line) > 200 {
				t.Errorf("%d bytes of the wrapper are arguments: %.80q", len(line), line)
			}
		}
		if found != 1 {
			t.Errorf("%d processes have the command's argument", found)
		}
	})
}

// A command sees the variables it was given, and none of the wrapper's.
func TestTheWrapperLeavesNoVariable(t *testing.T) {
	each(t, func(t *testing.T, _ *agent, c *Client) {
		if out := run(t, c, vm.GuestCommand{Argv: []string{"env"}, Env: []string{"A=1"}}, nil).Out; strings.Contains(out, "macfleet_") || !strings.Contains(out, "A=1") {
			t.Errorf("%s", out)
		}
	})
}
