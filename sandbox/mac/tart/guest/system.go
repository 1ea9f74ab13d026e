// Package guest is the inside of a simulated virtual machine: a system of its own in
// a scratch directory, in namespaces that nothing gets out of, whose processes are
// real and started by a guest agent as tart's goldens have it. When the machine runs,
// what it shares and how it ends is decided by its host, the tart command.
package guest

import "time"

// Generation is how much of today's guest agent an image has.
type Generation string

// The generations. Who names none has WithEnv.
const (
	// Old knows five fields of a command, reports -1 for a signal and a failed call for
	// a command it could not start.
	Old Generation = "old"
	// WithEnv adds detach, env and workdir: v0.11.0, the newest release.
	WithEnv Generation = "env"
	// WithSignals is in no release. It adds user, Started and Signal, reports 128 + N for
	// a signal and 125 for a command it could not start, kills all of a command's group,
	// takes both outputs without a stall, and gives a command up that does not take its
	// input.
	WithSignals Generation = "signals"
)

// Share is a directory of the host that the guest sees below /Volumes/My Shared Files.
type Share struct {
	Name     string `json:"name"` // empty: the folder of shares itself
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// System is what a guest is made of.
type System struct {
	// Userland is the directory whose bin, lib, sbin and usr the guest sees, read-only.
	Userland string `json:"userland"`
	// Disk is the writable part; Root an empty directory to put the guest's root on.
	Disk   string  `json:"disk"`
	Root   string  `json:"root"`
	Shares []Share `json:"shares,omitempty"`
	// Program is this executable, which is /usr/bin/nc in the guest. Empty: the guest has
	// the one of its userland, if there is one.
	Program string `json:"program,omitempty"`
	// Extra is a directory of static programs that the guest has in /usr/local/bin, and at
	// its root. It need not be there.
	Extra string `json:"extra,omitempty"`
	// OwnNetwork says that the guest's process was started with Attributes(true).
	OwnNetwork bool `json:"ownNetwork,omitempty"`
	// ShutdownGrace is how long processes have between SIGTERM and the end of a shutdown;
	// who is to be answered has half of it.
	ShutdownGrace time.Duration `json:"shutdownGrace"`
}

// AgentOptions say what the guest agent is like.
type AgentOptions struct {
	Generation Generation
	// Address is what ResolveIP answers; empty: it has none.
	Address func() string
	// Drops: the connection breaks as soon as a command, of this command line and
	// environment, has begun on it.
	Drops func(command string) bool
}

// home is where commands run that name no other place.
const home = "/Users/admin"
