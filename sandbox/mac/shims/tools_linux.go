package shims

import (
	"fmt"
	"os"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// inPID1 is a command whose work pid 1 does, which keeps its state.
func inPID1(c *call) int {
	dir, err := os.Getwd()
	if err != nil {
		return c.fail(".", err)
	}
	return c.relay(wire.Call{Tool: &wire.ToolCall{Name: c.name, Args: c.args, Dir: dir}})
}

// relay has pid 1 do the work, and says what it said.
func (c *call) relay(work wire.Call) int {
	a, err := c.ask(work)
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

func spctl(c *call) int {
	if strings.Join(c.args, " ") != "--status" {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	fmt.Fprintln(c.out, "assessments enabled")
	return 0
}

// xattr knows that no file here has an attribute.
func xattr(c *call) int {
	f, rest, ok := c.parse("lcr", "dp")
	if !ok {
		return rcUsage
	}
	if len(rest) == 0 || f.has('r') {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	for _, path := range rest {
		if _, err := os.Lstat(path); err != nil {
			c.errorf("No such file: %s", path)
			return 1
		}
		for _, letter := range []byte("dp") {
			if f.has(letter) {
				c.errorf("%s: No such xattr: %s", path, f[letter])
				return 1
			}
		}
	}
	return 0
}
