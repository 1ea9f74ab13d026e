// Package vm says what the node agent needs of a virtual machine tool: images by
// reference, clones by name, and a command that runs one for as long as it lives.
// It holds the words and the typed errors; how a tool is driven is left to the
// packages below it, who may run and when to package pod.
package vm

import (
	"context"
	"path/filepath"
	"strings"
	"time"
	"unicode"
)

// Driver drives one virtual machine tool. Its methods may be called at the same
// time for different names. Errors match those of this package with errors.Is.
type Driver interface {
	// Probe proves that the tool is there and works.
	Probe(ctx context.Context) (Info, error)
	// Images lists the images held on this host: one entry a name, so that an image
	// with a tag is there twice, by its tag and by its digest.
	Images(ctx context.Context) ([]Image, error)
	// Digest returns the digest of an image held on this host, ErrNotFound when
	// there is none. It asks no registry.
	Digest(ctx context.Context, ref string) (string, error)
	// Pull brings an image to this host, or proves that the one here is current,
	// and returns its digest. A pull by digest that was interrupted, in
	// whatever way, is resumed by the next if it comes soon and the disk has room meanwhile.
	// One of a tag, which may have moved, begins anew, and so does one whose ctx ended with
	// ErrNoSpace as its cause: nothing is kept of it.
	Pull(ctx context.Context, ref string, o PullOptions) (string, error)
	// RemoveImage gives up one name of an image, and its bytes with the last name.
	// It is no error when the image is not there.
	RemoveImage(ctx context.Context, name string) error
	// RemoveLeftovers removes what is kept of pulls that were interrupted.
	RemoveLeftovers()
	// LeastMemory is the minimum in bytes that Create raises a machine of the image to, 0
	// when there is none; ErrNotFound when the image is not on this host.
	LeastMemory(ctx context.Context, ref string) (int64, error)
	// Create clones the image under a new name and gives the clone its shape and an
	// identity of its own. It fails with ErrExists rather than replace a machine, with
	// ErrNotFound when the image is not on this host, and leaves nothing behind when
	// it fails otherwise. What a reference by tag means is settled once.
	Create(ctx context.Context, name, ref string, shape Shape) error
	// RunCommand is what to execute to run the machine: the process lives as long
	// as the machine does. It fails with *ShareError for a share that it cannot name.
	RunCommand(name string, o RunOptions) (Command, error)
	// GuestSocket is where the agent inside the guest of a running machine answers.
	GuestSocket(name string) string
	// Machines lists all machines of this host, other people's too. One that cannot be
	// looked at does not hide the others: see Machine.Unseen.
	Machines(ctx context.Context) ([]Machine, error)
	// Machine looks at one; ErrNotFound when there is none of that name.
	Machine(ctx context.Context, name string) (Machine, error)
	// Wait returns once the machine runs no more, or with ctx. It does not poll, and
	// works for a machine that somebody else started.
	Wait(ctx context.Context, name string) error
	// Stop ends a running machine within grace and returns once it runs no more: the
	// guest is asked to shut itself down, then the machine is stopped, in the end it
	// is killed. Stopping one that does not run, or is not there, is no error. A second
	// Stop with a shorter grace may run at the same time, and counts.
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
	// Unknown: nobody has tried this version with the driver. It is driven all the
	// same; whoever probes says so once.
	Unknown bool
}

// Image held on the host.
type Image struct {
	// Name is a reference by tag or by digest.
	Name string
	// Digest of the image, sha256:…, empty when the tool does not tell.
	Digest string
	// SizeBytes on disk, as far as the tool tells.
	SizeBytes int64
	// Accessed is when it was last used; zero when the tool does not tell.
	Accessed time.Time
}

// PullOptions of one pull. Its zero value pulls without credentials.
type PullOptions struct {
	// Credential for the registry of the image. Nil: what the host has.
	Credential *Credential
	// Progress is called now and then while bytes arrive, with whole percents. Nil: it
	// is not. It must not block.
	Progress func(percent int)
}

// Credential for a registry. It is never printed.
type Credential struct{ Username, Password string }

// String keeps the credential out of logs.
func (Credential) String() string { return "(credential)" }

// GoString does as well.
func (Credential) GoString() string { return "(credential)" }

// Machine is one virtual machine.
type Machine struct {
	Name string
	// Running means that a process holds the machine, not that the guest is up.
	Running bool
	// Powered: macOS has let the guest start, as far as the tool shows it. One that runs
	// and shows nothing may still be refused.
	Powered bool
	// MacOS: its guest is macOS, so that it takes one of the places the licence allows.
	MacOS bool
	// Unseen is why a machine in a list could not be looked at. It is taken for a macOS
	// guest that runs, so that too many are counted rather than too few.
	Unseen error
}

// RunOptions of one run of a machine.
type RunOptions struct {
	// Shares are directories of the host that the guest sees.
	Shares []Share
}

// Share is a directory of the host in the guest, under its name.
type Share struct {
	Name, Path string
	ReadOnly   bool
}

// Shareable reports whether a path can be given to a tool as that of a share:
// absolute, and without what separates the parts of a share from each other. A path
// that ends like an option would be another directory.
func Shareable(path string) bool {
	return filepath.IsAbs(path) && !strings.ContainsAny(path, ":,") && !strings.ContainsFunc(path, unicode.IsControl)
}

// Shape is what a machine gets. Zero fields keep the image's own; what is below
// the image's minimum is raised to it.
type Shape struct {
	CPUs int
	// MemoryBytes is rounded down to whole mebibytes.
	MemoryBytes int64
	// DiskBytes is rounded up to whole gigabytes. A disk never shrinks: less than the
	// image has changes nothing.
	DiskBytes int64
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
	// NoSession: the host has no login session that macOS guests can start in.
	NoSession bool
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
