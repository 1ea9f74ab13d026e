package cluster

import (
	"errors"
	"fmt"
)

var (
	// ErrNotLinux means that this operating system cannot run a sandbox.
	ErrNotLinux = errors.New("the sandbox needs Linux")
	// ErrNoGo means that the go command is not in PATH.
	ErrNoGo = errors.New("the go command is not in PATH: install Go 1.26 or later")
	// ErrNoSource means that the sources of the control plane were not found.
	ErrNoSource = errors.New("the sources of the control plane were not found")
	// ErrNoSpace means that a disk is too full for a build.
	ErrNoSpace = errors.New("not enough free disk space to build the control plane")
	// ErrInUse means that another control plane runs in the same directory.
	ErrInUse = errors.New("another control plane runs in this directory")
)

// CompileError is a go command that failed. Error is one line; Output holds all that the command said.
type CompileError struct {
	// Doing is what was being done, as in "compiling the control plane".
	Doing string
	// Output is what the command printed on standard error.
	Output string
	// Err is how the command ended.
	Err error
}

// Error gives the command's last line, where go puts its reason.
func (e *CompileError) Error() string {
	return fmt.Sprintf("%s: %v: %s", e.Doing, e.Err, lastLine(e.Output))
}

// Unwrap returns how the command ended.
func (e *CompileError) Unwrap() error { return e.Err }
