//go:build !linux

package guest

import (
	"errors"
	"net"
)

// errUnsupported is returned where guests have no inside.
var errUnsupported = errors.New("guests run commands on Linux only")

// Inside is empty here: guests boot, but have no agent.
type Inside struct{}

// Enter always fails.
func Enter(System) (*Inside, error) { return nil, errUnsupported }

// Serve never serves.
func (*Inside) Serve(net.Listener, AgentOptions) error { return errUnsupported }

// SetAddress has no network to set it on.
func (*Inside) SetAddress(string) error { return errUnsupported }

// ShutDown has nothing to end.
func (*Inside) ShutDown() {}

// Supported says that there is nothing to enter.
func Supported() bool { return false }
