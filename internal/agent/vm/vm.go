// Package vm says what the node agent needs of a virtual machine tool: images by
// reference, clones by name, and a command that runs one for as long as it lives.
// It holds the words and the typed errors; how a tool is driven is left to the
// packages below it, who may run and when to package pod.
package vm

import (
	"context"
	"time"
)

// Driver drives one virtual machine tool. Its methods may be called at the same
// time for different names. Errors match those of this package with errors.Is.
type Driver interface {
	// Probe proves that the tool is there and works.
	Probe(ctx context.Context) (Info, error)
	// Images lists the images held on this host.
	Images(ctx context.Context) ([]Image, error)
	// Digest returns the digest of an image held on this host, ErrNotFound when
	// there is none. It asks no registry.
	Digest(ctx context.Context, ref string) (string, error)
	// Pull brings an image to this host, or proves that the one here is current,
	// and returns its digest. A pull that was interrupted is resumed by the next.
	Pull(ctx context.Context, ref string) (string, error)
	// Create clones the image under a new name and gives the clone its shape. It
	// fails with ErrExists rather than replace a machine, and leaves none behind
	// when it fails otherwise.
	Create(ctx context.Context, name, ref string, shape Shape) error
	// RunCommand is what to execute to run the machine: the process lives as long
	// as the machine does.
	RunCommand(name string) Command
	// Machines lists all machines of this host, other people's too.
	Machines(ctx context.Context) ([]Machine, error)
	// Machine looks at one; ErrNotFound when there is none of that name.
	Machine(ctx context.Context, name string) (Machine, error)
	// Stop ends a running machine within grace, by force in the end, and returns
	// once it runs no more. Stopping one that does not run, or is not there, is
	// no error.
	Stop(ctx context.Context, name string, grace time.Duration) error
	// Delete removes a stopped machine; ErrRunning when it runs, no error when it
	// is not there.
	Delete(ctx context.Context, name string) error
	// Classify reads how a run command ended.
	Classify(end RunEnd) Outcome
}

// Info describes the tool.
type Info struct {
	// Name and Version make the container runtime version of the Node, e.g.
	// tart://2.32.1.
	Name, Version string
}

// Image held on the host.
type Image struct {
	// Name is a reference by tag or by digest.
	Name string
	// SizeBytes on disk, as far as the tool tells.
	SizeBytes int64
}

// Machine is one virtual machine.
type Machine struct {
	Name string
	// Running means that a process holds the machine, not that the guest is up.
	Running bool
}

// Shape is what a machine gets. Zero fields keep the image's own; what is below
// the image's minimum is raised to it.
type Shape struct {
	CPUs int
	// MemoryBytes is rounded down to whole mebibytes.
	MemoryBytes int64
}

// Command to execute, without a shell. Env is the whole environment.
type Command struct {
	Path string
	Args []string
	Env  []string
}

// RunEnd is how a run command ended.
type RunEnd struct {
	// Code is the exit code, or -1 when a signal ended it.
	Code int
	// Signal is the number of the signal, or 0.
	Signal int
	// Tail is the last part of its output.
	Tail string
}

// Outcome is what an end means.
type Outcome struct {
	Kind OutcomeKind
	// Message for people, one line.
	Message string
}

// OutcomeKind classifies how a machine ended.
type OutcomeKind string

// The kinds of end.
const (
	// ShutDown: the guest shut itself down in order.
	ShutDown OutcomeKind = "ShutDown"
	// Stopped: we, or somebody on the host, pulled the plug.
	Stopped OutcomeKind = "Stopped"
	// Crashed: the guest or its devices failed, whatever the exit code said.
	Crashed OutcomeKind = "Crashed"
	// Limited: it never started, as the licence limit was reached.
	Limited OutcomeKind = "Limited"
	// NotStarted: it never started, for another reason.
	NotStarted OutcomeKind = "NotStarted"
	// Killed: a signal ended the run command.
	Killed OutcomeKind = "Killed"
)
