package shims

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

func launchctl(c *call) int {
	if len(c.args) == 0 {
		return c.unmodelled("no subcommand")
	}
	return c.relay(wire.Call{Launchctl: c.args})
}

// scutil reads and sets the three names of a Mac.
func scutil(c *call) int {
	if len(c.args) < 2 || len(c.args) > 3 {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	verb, key := c.args[0], c.args[1]
	if key != "HostName" && key != "LocalHostName" && key != "ComputerName" {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	switch {
	case verb == "--get" && len(c.args) == 2:
		return c.getName(key)
	case verb == "--set" && len(c.args) == 3:
		return c.setName(key, c.args[2])
	}
	return c.unmodelled(strings.Join(c.args, " "))
}

func (c *call) getName(key string) int {
	a, err := c.ask(wire.Call{Name: &wire.NameCall{Key: key}})
	if err != nil {
		c.errorf("%v", err)
		return rcSoftware
	}
	if !a.Found {
		fmt.Fprintf(c.err, "%s: not set\n", key)
		return 1
	}
	fmt.Fprintln(c.out, a.Value)
	return 0
}

// setName checks what configd checks: a local name is a single DNS label.
func (c *call) setName(key, value string) int {
	if c.uid != wire.RootUID {
		fmt.Fprintln(c.err, "SCPreferencesLock() failed: Permission denied")
		return 1
	}
	label := regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
	if key == "LocalHostName" && !label.MatchString(value) {
		fmt.Fprintln(c.err, "SCPreferencesSetLocalHostName() failed: Invalid argument")
		return 1
	}
	a, err := c.ask(wire.Call{Name: &wire.NameCall{Key: key, Set: &value}})
	if err != nil || a.Error != "" {
		c.errorf("%v%s", err, a.Error)
		return rcSoftware
	}
	return 0
}

func shutdown(c *call) int {
	kinds := map[string]string{"-r now": "reboot", "-h now": "halt"}
	kind, ok := kinds[strings.Join(c.args, " ")]
	if !ok {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	return c.powerCycle(kind)
}

func reboot(c *call) int {
	if len(c.args) > 0 {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	return c.powerCycle("reboot")
}

func (c *call) powerCycle(kind string) int {
	if c.uid != wire.RootUID {
		c.errorf("NOT super-user")
		return 1
	}
	if c.name == "shutdown" {
		fmt.Fprintln(c.err, "Shutdown NOW!")
	}
	if _, err := c.ask(wire.Call{Shutdown: kind}); err != nil {
		c.errorf("%v", err)
		return rcSoftware
	}
	return 0
}
