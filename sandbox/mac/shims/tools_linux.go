package shims

import (
	"fmt"
	"os"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// inPID1 is a command whose work pid 1 does, which keeps its state.
func inPID1(c *call) int {
	dir, err := os.Getwd()
	if err != nil {
		return c.fail(".", err)
	}
	a, err := c.ask(wire.Call{Tool: &wire.ToolCall{Name: c.name, Args: c.args, Dir: dir}})
	if err == nil && a.Error != "" {
		err = fmt.Errorf("%s", a.Error)
	}
	if err != nil {
		c.errorf("%v", err)
		return rcSoftware
	}
	fmt.Fprint(c.out, a.Stdout)
	fmt.Fprint(c.err, a.Stderr)
	c.reason = a.Unmodelled
	return a.RC
}
