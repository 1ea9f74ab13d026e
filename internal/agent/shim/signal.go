package shim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// signalTimeout bounds how long the guest may take to send a signal.
const signalTimeout = 10 * time.Second

// signalAnswer is longer than what kill says, in bytes.
const signalAnswer = 4 << 10

// Signal sends sig to the process group of a command that Run began. Before the command
// runs it waits for that, until ctx ends; for a command that has ended it does nothing and
// returns nil. A *RefusedError says that it is not known, or could not be signalled.
func Signal(ctx context.Context, dir, id string, sig syscall.Signal) error {
	name := unix.SignalName(sig)
	if name == "" {
		return invalid("there is no signal %d", int(sig))
	}
	answer, err := ask(ctx, dir, request{V: version, Signal: &signalRequest{ID: id, Signal: strings.TrimPrefix(name, "SIG")}}, answerPatience)
	if err != nil {
		return err
	}
	return answer.End.err()
}

// target is what signals for a command go to.
type target struct {
	mu     sync.Mutex
	pid    int
	killed bool
	// known is closed once pid is, over once the command has ended.
	known, over chan struct{}
}

func newTarget() target { return target{known: make(chan struct{}), over: make(chan struct{})} }

func (t *target) set(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pid == 0 {
		t.pid = pid
		close(t.known)
	}
}

func (t *target) end() { close(t.over) }

func (t *target) ended() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

func (t *target) get() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pid
}

func (t *target) kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.killed = true
}

func (t *target) wasKilled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.killed
}

func (c *commands) replySignal(ctx context.Context, q signalRequest) reply {
	if unix.SignalNum("SIG"+q.Signal) == 0 {
		return reply{Error: &refusal{Code: RefusedInvalid, Message: fmt.Sprintf("there is no signal %q", q.Signal)}}
	}
	cmd := c.find(q.ID)
	if cmd == nil {
		return reply{Error: unknown(q.ID)}
	}
	select {
	case <-cmd.target.known:
	case <-cmd.target.over:
	case <-ctx.Done():
	}
	pid := cmd.target.get()
	if pid == 0 || cmd.target.ended() {
		// Its number may be another's by now.
		return reply{}
	}
	return c.kill(ctx, cmd, q.Signal, pid)
}

// kill sends the signal by a command in the guest.
func (c *commands) kill(ctx context.Context, cmd *command, signal string, pid int) reply {
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	defer context.AfterFunc(c.running, cancel)()
	if signal == "KILL" {
		// Before: it may have ended by the time that the guest tells.
		cmd.target.kill()
	}
	said := vm.NewBounded(signalAnswer)
	code, err := c.guest.Exec(ctx, vm.GuestCommand{
		Argv: []string{"/bin/sh", "-c", `LC_ALL=C; export LC_ALL; kill -s "$1" -- "$2" 2>&1`, "sh", signal, strconv.Itoa(pid)},
	}, vm.Streams{Stdout: said})
	switch {
	case err != nil:
		return reply{End: ending(0, err)}
	case code == 0, cmd.target.ended(), strings.Contains(strings.ToLower(said.String()), "no such process"):
		return reply{}
	}
	return reply{Error: &refusal{Code: RefusedSignal, Message: fmt.Sprintf("the guest could not signal command %s: %s", cmd.ID, strings.TrimSpace(said.String()))}}
}
