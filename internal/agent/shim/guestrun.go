package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// GuestRun is a command for the guest of an attempt. Its environment is sent to
// the shim and on to the guest, and is never written down.
type GuestRun struct {
	// ID names the command within its attempt: lower case letters, digits and dashes.
	ID      string
	Command vm.GuestCommand
	// Log is the file below the attempt's directory that gets the output, in the
	// format of the CRI; its name ends in .log. Empty: the output is thrown away.
	Log string
	// Timeout is how long the guest agent is waited for. Zero: it must answer at once.
	Timeout time.Duration
	// Stdin: the command has input, which Attach feeds. It ends with the first Attach that
	// feeds it where StdinOnce is set, and with the command otherwise.
	Stdin, StdinOnce bool
}

// Begun says since when a command of the guest may have had an effect.
type Begun struct {
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
}

// CommandEnd is how a command in the guest ended.
type CommandEnd struct {
	ID string `json:"id"`
	// Begun is zero where the command never began.
	Begun time.Time `json:"begun,omitzero"`
	Ended time.Time `json:"ended"`
	// Code is the exit code of a command that Exited, and means nothing otherwise.
	Code    int     `json:"code"`
	Outcome Outcome `json:"outcome"`
	// Message says in one line why there is no exit code, or what the command left.
	Message string `json:"message,omitempty"`
}

// Outcome classifies how a command in the guest ended.
type Outcome string

// The kinds of end of a command.
const (
	// Exited: the guest told the exit code.
	Exited Outcome = "Exited"
	// NotExecuted: the guest could not start it.
	NotExecuted Outcome = "NotExecuted"
	// Unreachable: no guest agent took it; it surely never ran, and the same ID may
	// be given again.
	Unreachable Outcome = "Unreachable"
	// Lost: it may have run, and nobody knows how it ended.
	Lost Outcome = "Lost"
)

// The errors of what a shim is asked for, next to RefusedError.
var (
	// ErrNoShim: no shim answers for the attempt, or its machine has ended.
	ErrNoShim = errors.New("the process that runs this VM does not answer")
	// ErrTooManyStreams: the shim has as many streams as it takes at the same time.
	ErrTooManyStreams = errors.New("too many streams are open to this VM")
	// ErrPortRefused: nobody listens on the port in the guest.
	ErrPortRefused = errors.New("nobody listens on that port in the guest")
	// ErrFellBehind: the reader of an Attach was so slow that output would have been lost.
	ErrFellBehind = errors.New("the output came faster than it was read, and the stream was cut: see the log of the command")
)

// RefusedError says why a shim did not take a request. Nothing was run.
type RefusedError struct {
	// Code is one of the Refused constants.
	Code    string
	Message string
}

func (e *RefusedError) Error() string { return "the process that runs this VM refused: " + e.Message }

// Codes of a RefusedError.
const (
	// RefusedVersion: the shim does not speak our version of the protocol.
	RefusedVersion = "version"
	// RefusedInvalid: the request is not one that a shim can carry out.
	RefusedInvalid = "invalid"
	// RefusedUnknown: the shim was never given that command.
	RefusedUnknown = "unknown"
	// RefusedRecord: the start could not be written down, e.g. as the disk is full.
	RefusedRecord = "record"
	// RefusedSignal: the guest could not signal the command.
	RefusedSignal = "signal"
)

// What callers get as errors of their own: refusedEnded, of a shim whose machine has ended,
// as ErrNoShim.
const (
	refusedEnded   = "ended"
	refusedStreams = "streams"
	refusedPort    = "port"
	refusedBehind  = "behind"
)

func invalid(format string, args ...any) *RefusedError {
	return &RefusedError{Code: RefusedInvalid, Message: fmt.Sprintf(format, args...)}
}

// idPattern keeps IDs usable in file names.
var idPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// check finds what no shim could carry out. Values of the environment never
// become part of the message.
func (r GuestRun) check() *RefusedError {
	switch {
	case !idPattern.MatchString(r.ID):
		return invalid("%q is no ID of a command", r.ID)
	case len(r.Command.Argv) == 0:
		return invalid("command %s has no arguments, not even its own name", r.ID)
	case r.Log != "" && !isLogName(r.Log):
		return invalid("command %s: %q is no name for its log: it must be a plain file name that ends in .log and not %s", r.ID, r.Log, outputFile)
	}
	for i, arg := range r.Command.Argv {
		if !utf8.ValidString(arg) {
			return invalid("command %s: argument %d is not UTF-8, which guest agents require", r.ID, i)
		}
	}
	for i, entry := range r.Command.Env {
		if name, _, _ := strings.Cut(entry, "="); !utf8.ValidString(entry) {
			return invalid("command %s: variable %d of the environment (%q) is not UTF-8, which guest agents require", r.ID, i, name)
		}
	}
	return nil
}

func isLogName(name string) bool {
	return filepath.Base(name) == name && strings.HasSuffix(name, ".log") && name != outputFile && !strings.HasPrefix(name, ".")
}

func begunFile(dir, id string) string { return filepath.Join(dir, "command-"+id+".begun.json") }

func endedFile(dir, id string) string { return filepath.Join(dir, "command-"+id+".ended.json") }

// ReadCommand returns what is written down of a command: whether it may have had
// an effect, and its end, nil while there is none. It needs no shim.
func ReadCommand(dir, id string) (begun bool, end *CommandEnd, err error) {
	// The end first: who finds none must not miss a begin before it.
	var e CommandEnd
	found, err := readRecord(endedFile(dir, id), &e)
	if err != nil {
		return false, nil, err
	}
	if found {
		return e.Outcome != Unreachable, &e, nil
	}
	_, begun, err = ReadBegun(dir, id)
	return begun, nil, err
}

// ReadBegun returns since when a command may have had an effect; false when it has
// none.
func ReadBegun(dir, id string) (Begun, bool, error) {
	var b Begun
	found, err := readRecord(begunFile(dir, id), &b)
	return b, found, err
}

// Forget removes what is left of a command that ended long ago, with its log: nobody asks for
// it any more, and its ID is not given again.
func Forget(dir, id, log string) error {
	logs, err := filepath.Glob(filepath.Join(dir, log) + "*")
	if err != nil {
		return fmt.Errorf("finding the log of a command: %w", err)
	}
	for _, path := range logs {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the log of a command: %w", err)
		}
	}
	return forget(dir, id)
}

// forget removes the records of a command.
func forget(dir, id string) error {
	for _, path := range []string{begunFile(dir, id), endedFile(dir, id)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the record of a command: %w", err)
		}
	}
	return nil
}
