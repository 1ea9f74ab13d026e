package shims

import (
	"fmt"
	"os"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// kickstart is Remote Management's own tool: as root it turns the agent off. What
// shares the screen otherwise, launchd's com.apple.screensharing, is none of its
// business. To turn it on needs a person at the screen, or a profile.
func kickstart(c *call) int {
	if strings.Join(c.args, " ") != "-deactivate -stop" {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	if c.uid != wire.RootUID {
		c.errorf("must be run as root")
		return 1
	}
	if err := os.Remove(wire.RemoteManagementFile); err != nil && !os.IsNotExist(err) {
		return c.fail(wire.RemoteManagementFile, err)
	}
	fmt.Fprintln(c.out, "Starting...\nStopped ARD Agent.\nDone.")
	return 0
}
