package tart

import (
	"errors"
	"fmt"
	"io"
)

// Exit codes of tart's error classes.
const (
	exitFailure = 1
	exitState   = 2  // does not exist, is not running, is already running
	exitUsage   = 64 // EX_USAGE, from Swift's argument parser
)

// stateError is an error of a VM's state; tart exits 2 and prints it bare.
type stateError string

func (e stateError) Error() string { return string(e) }

// runtimeError is any other error tart knows of; it exits 1 and prints it bare.
// Errors of foreign origin exit 1 too, but are printed after "Error: ".
type runtimeError string

func (e runtimeError) Error() string { return string(e) }

// usageError is a command line that does not parse or does not make sense.
type usageError struct {
	message string
	usage   string // arguments of the command, empty when the command is unknown
}

func (e usageError) Error() string { return e.message }

func doesNotExist(name string) error {
	return stateError(fmt.Sprintf("the specified VM %q does not exist", name))
}

func notRunning(name string) error {
	return stateError(fmt.Sprintf("VM %q is not running", name))
}

// report prints err the way tart does and returns the exit code for it.
func report(w io.Writer, err error) int {
	var (
		state   stateError
		failure runtimeError
		usage   usageError
		guest   exitCode
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &guest):
		return int(guest)
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(w, "Error: %s\nUsage: tart %s\n", usage.message, usage.usageLine())
		return exitUsage
	case errors.As(err, &state):
		_, _ = fmt.Fprintln(w, state)
		return exitState
	case errors.As(err, &failure):
		_, _ = fmt.Fprintln(w, failure)
		return exitFailure
	}
	_, _ = fmt.Fprintf(w, "Error: %v\n", err)
	return exitFailure
}

func (e usageError) usageLine() string {
	if e.usage == "" {
		return "<subcommand>"
	}
	return e.usage
}
