package shim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/atomicfile"
)

const (
	// The guest agent is asked again after a two-hundredth of the time it was waited
	// for: that adds half a percent to any boot, and costs little in a long one.
	pollPart = 200
	minPoll  = 10 * time.Millisecond
	maxPoll  = 500 * time.Millisecond
)

// run is the life of one command.
func (c *commands) run(cmd *command) {
	code, err := c.execute(cmd)
	// Nobody asks for it again, and a VM may see thousands of commands.
	cmd.Command = vm.GuestCommand{}
	var unrecorded *recordError
	if errors.As(err, &unrecorded) {
		cmd.refused = &refusal{Code: RefusedRecord, Message: oneLine(err)}
		cmd.over()
		return
	}
	end := &CommandEnd{ID: cmd.ID, Begun: cmd.since, Ended: time.Now(), Code: code}
	end.Outcome, end.Message = outcome(err)
	if end.Outcome == Lost && cmd.target.wasKilled() {
		// The signal ended the guest's shell as well, which would have told.
		end.Outcome, end.Code, end.Message = Exited, signalCode+int(syscall.SIGKILL), ""
	}
	if cmd.held {
		end.Message = heldMessage
	}
	if end.Outcome == Unreachable {
		end.Begun = time.Time{}
		// Before the end is there: who reads in between finds a command that never was.
		_ = forget(c.dir, cmd.ID)
	}
	cmd.end = end
	_ = record(endedFile(c.dir, cmd.ID), end, cmd.over)
}

// signalCode and the number of a signal are the exit code of what that signal ended.
const signalCode = 128

// over tells all who wait, once the end is there.
func (c *command) over() {
	close(c.ended)
	c.taps.end()
}

// heldMessage is for a command that has ended while a daemon which it started holds its
// outputs: the daemon is not awaited.
const heldMessage = "processes that the command started still hold its output, and what they print is not logged: " +
	"start daemons with </dev/null >/dev/null 2>&1 &"

// outcome reads what became of a command without an exit code.
func outcome(err error) (Outcome, string) {
	switch {
	case err == nil:
		return Exited, ""
	case errors.Is(err, vm.ErrNotExecuted):
		return NotExecuted, oneLine(err)
	case errors.Is(err, vm.ErrGuestUnreachable):
		return Unreachable, oneLine(err)
	}
	return Lost, oneLine(err)
}

// maxMessage bounds what is kept of an error's text, in bytes: a guest writes some of it, and what
// is longer fits into no status.
const maxMessage = 4 << 10

func oneLine(err error) string {
	line := strings.ReplaceAll(err.Error(), "\n", "; ")
	if len(line) > maxMessage {
		line = strings.ToValidUTF8(line[:maxMessage], "") + "…"
	}
	return line
}

// execute waits for the guest agent and has it run the command.
func (c *commands) execute(cmd *command) (int, error) {
	streams, flush := c.streams(cmd)
	defer flush()
	defer cmd.target.end()
	answering, cancel := context.WithTimeout(c.waiting, cmd.Timeout)
	defer cancel()
	for {
		if err := c.awaitGuest(answering, cmd.Timeout); err != nil {
			return 0, err
		}
		if err := c.begin(cmd); err != nil {
			return 0, err
		}
		code, err := c.guest.Exec(c.running, cmd.Command, streams)
		if !errors.Is(err, vm.ErrGuestUnreachable) || answering.Err() != nil {
			return code, err
		}
		// It surely never began: the guest agent went away in between.
		_ = pause(answering, minPoll)
	}
}

// streams are where the output goes. The pieces that are left when the command has
// ended are flushed.
func (c *commands) streams(cmd *command) (vm.Streams, func()) {
	s := vm.Streams{
		Stdout: tapped{&cmd.taps, stdout, nil}, Stderr: tapped{&cmd.taps, stderr, nil},
		Held: func() { cmd.held = true }, Began: cmd.target.set, Resize: cmd.sizes,
	}
	endInput := func() {}
	if cmd.input != nil {
		s.Stdin, endInput = cmd.input, cmd.input.end
	}
	if cmd.Log == "" {
		return s, endInput
	}
	log := newLog(filepath.Join(c.dir, cmd.Log), c.logs)
	out, errOut := log.stream("stdout"), log.stream("stderr")
	s.Stdout, s.Stderr = tapped{&cmd.taps, stdout, out}, tapped{&cmd.taps, stderr, errOut}
	return s, func() {
		endInput()
		out.end()
		errOut.end()
		_ = log.Close()
	}
}

// awaitGuest returns once the guest agent answers. It is asked once at least.
func (c *commands) awaitGuest(answering context.Context, timeout time.Duration) error {
	begin := time.Now()
	for {
		err := c.guest.Up(c.waiting)
		if err == nil {
			return nil
		}
		delay := min(max(time.Since(begin)/pollPart, minPoll), maxPoll)
		if pause(answering, delay) == nil {
			continue
		}
		if c.waiting.Err() != nil {
			return fmt.Errorf("waiting for the guest agent: %w: %w", context.Cause(c.waiting), vm.ErrGuestUnreachable)
		}
		return fmt.Errorf("waiting for the guest agent, %s: %w", timeout, err)
	}
}

// recordError: the start could not be written down, so that nothing was started.
type recordError struct{ err error }

func (e *recordError) Error() string { return e.err.Error() }

func (e *recordError) Unwrap() error { return e.err }

// begin writes down that the command may have an effect from now on.
func (c *commands) begin(cmd *command) error {
	now := time.Now()
	err := atomicfile.WriteJSON(begunFile(c.dir, cmd.ID), Begun{ID: cmd.ID, Time: now})
	select {
	case <-cmd.begun:
		// An earlier try has begun, as far as anybody knows: its record does as well.
		return nil
	default:
	}
	if err != nil {
		return &recordError{fmt.Errorf("writing down that command %s begins: %w", cmd.ID, err)}
	}
	cmd.since = now
	close(cmd.begun)
	return nil
}
