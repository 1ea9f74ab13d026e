package shim

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// exitTimeout is how long after its machine a command's exit may still arrive:
// what the guest said last is in the socket already.
const exitTimeout = 500 * time.Millisecond

// errMachineEnded is why commands are given up.
var errMachineEnded = errors.New("the VM ended")

// commands are those of one guest.
type commands struct {
	dir          string
	guest        vm.Guest
	logs         Logs
	exitPatience time.Duration

	// running is the context of commands, waiting that of those whose guest agent has
	// not answered yet.
	running, waiting      context.Context
	giveUp, giveUpWaiting context.CancelCauseFunc
	live                  sync.WaitGroup

	mu     sync.Mutex
	byID   map[string]*command
	closed bool
	// streaming counts streams whose callers are there.
	streaming int
	// left are commands of streams whose callers have gone, the first one first.
	left []*leftCommand
	// tapped is how much output waits for all who are attached.
	tapped atomic.Int64
}

// command is one that was taken.
type command struct {
	GuestRun
	// begun and ended are closed once that is on the disk, as far as there is room.
	begun, ended chan struct{}
	since        time.Time
	// held is set where the command ended before its outputs did.
	held bool
	// taps get the output as it comes, input and sizes are what Attach feeds; input is nil
	// for a command without.
	taps   taps
	input  *input
	sizes  chan vm.TerminalSize
	target target
	// end and refused may be read once ended is closed; one of them is set.
	end     *CommandEnd
	refused *refusal
}

func newCommands(dir string, guest vm.Guest, logs Logs) *commands {
	if guest != nil {
		guest = &addressed{Guest: guest}
	}
	c := &commands{dir: dir, guest: guest, logs: logs, exitPatience: exitTimeout, byID: map[string]*command{}}
	c.running, c.giveUp = context.WithCancelCause(context.Background())
	c.waiting, c.giveUpWaiting = context.WithCancelCause(c.running)
	return c
}

// take begins a command, or finds the one that was begun under its ID.
func (c *commands) take(r GuestRun) (*command, *refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.byID[r.ID]
	switch {
	case known != nil && !known.neverRan():
		return known, nil
	case c.closed:
		return nil, &refusal{Code: refusedEnded, Message: "the VM has ended"}
	case c.guest == nil:
		return nil, &refusal{Code: RefusedInvalid, Message: "it holds no guest that commands could run in"}
	}
	if err := forget(c.dir, r.ID); err != nil {
		return nil, &refusal{Code: RefusedRecord, Message: err.Error()}
	}
	cmd := &command{
		GuestRun: r, begun: make(chan struct{}), ended: make(chan struct{}),
		taps: taps{waiting: &c.tapped}, sizes: make(chan vm.TerminalSize, 1), target: newTarget(),
	}
	if r.Stdin {
		cmd.input = newInput()
	}
	c.byID[r.ID] = cmd
	c.live.Go(func() { c.run(cmd) })
	return cmd, nil
}

func (c *commands) find(id string) *command {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// neverRan reports whether the ID may be given again.
func (c *command) neverRan() bool {
	select {
	case <-c.ended:
		return c.refused != nil || c.end.Outcome == Unreachable
	default:
		return false
	}
}

// close waits for what still runs, once the machine has ended, and gives it up.
func (c *commands) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.giveUpWaiting(errMachineEnded)
	late := time.AfterFunc(c.exitPatience, func() { c.giveUp(errMachineEnded) })
	defer late.Stop()
	c.live.Wait()
	c.giveUp(errMachineEnded)
}
