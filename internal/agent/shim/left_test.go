package shim

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// awaitCut waits until so many commands were ended, and returns them.
func (g *fakeGuest) awaitCut(t *testing.T, n int) []vm.GuestCommand {
	t.Helper()
	late := time.After(deadline)
	for {
		g.mu.Lock()
		cut := append([]vm.GuestCommand(nil), g.cut...)
		g.mu.Unlock()
		if len(cut) >= n {
			return cut
		}
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			t.Fatalf("%d commands were ended, not %d", len(cut), n)
		}
	}
}

// leave begins a command and goes.
func leave(t *testing.T, g *fakeGuest, dir string, c vm.GuestCommand) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = Exec(ctx, dir, c, vm.Streams{})
	}()
	receive(t, "it runs", g.running)
	cancel()
	receive(t, "the caller is gone", gone)
}

func TestCommandsThatAreLeftDoNotAddUp(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	left := func() int {
		a.commands.mu.Lock()
		defer a.commands.mu.Unlock()
		return len(a.commands.left)
	}
	for i := range maxLeft + 2 {
		leave(t, g, a.dir, vm.GuestCommand{Argv: []string{"hang", strconv.Itoa(i)}})
		for late := time.After(deadline); left() < min(i+1, maxLeft); {
			select {
			case <-time.After(time.Millisecond):
			case <-late:
				t.Fatalf("%d commands are left, not %d", left(), i+1)
			}
		}
		if i < maxLeft {
			continue
		}
		if cut := g.awaitCut(t, i-maxLeft+1); cut[i-maxLeft].Argv[1] != strconv.Itoa(i-maxLeft) {
			t.Errorf("the command that was ended is %v", cut[i-maxLeft].Argv)
		}
	}
	// One that ends by itself is none of them.
	g.release <- 0
	for late := time.After(deadline); left() != maxLeft-1; {
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			t.Fatalf("%d commands are left", left())
		}
	}
}

// A terminal hangs up.
func TestACommandWithATerminalEndsWithItsCaller(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	leave(t, g, a.dir, vm.GuestCommand{Argv: []string{"hang"}, TTY: true})
	g.awaitCut(t, 1)
}
