package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// deadline of anything that is waited for.
const deadline = 2 * time.Minute

// fakeGuest is a guest whose agent can be away, and whose commands are named by
// what they do.
type fakeGuest struct {
	mu   sync.Mutex
	down bool
	// goesAway: the next command finds the agent gone, though it was up before.
	goesAway int
	// ran are all commands, cut those that were ended while they hung.
	ran, cut []vm.GuestCommand
	// starts, when set, holds commands up that were sent until it is closed.
	starts chan struct{}
	// leaseless is how often it does not know its address yet.
	leaseless int
	// running has one entry for a command that hangs; release ends it with a code.
	running chan struct{}
	release chan int
}

func newFakeGuest() *fakeGuest {
	return &fakeGuest{running: make(chan struct{}, 10), release: make(chan int)}
}

func (g *fakeGuest) setDown(down bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = down
}

func (g *fakeGuest) commands() []vm.GuestCommand {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]vm.GuestCommand(nil), g.ran...)
}

func (g *fakeGuest) Up(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down {
		return fmt.Errorf("asking a fake: %w", vm.ErrGuestUnreachable)
	}
	return nil
}

func (g *fakeGuest) note(c vm.GuestCommand) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.goesAway > 0 {
		g.goesAway--
		return false
	}
	g.ran = append(g.ran, c)
	return true
}

func (g *fakeGuest) Exec(ctx context.Context, c vm.GuestCommand, s vm.Streams) (int, error) {
	if !g.note(c) {
		return 0, vm.ErrGuestUnreachable
	}
	if g.starts != nil {
		<-g.starts
	}
	if s.Began != nil {
		s.Began(-12345)
	}
	switch c.Argv[0] {
	case "fail":
		return 3, nil
	case "nothing":
		return 0, fmt.Errorf("starting %q: %w", c.Argv[0], vm.ErrNotExecuted)
	case "break":
		return 0, errors.Join(vm.ErrLost, errors.New("EOF"))
	case "print":
		_, _ = io.WriteString(s.Stdout, "out\nhalf")
		_, _ = io.WriteString(s.Stderr, "err\n")
	case "daemon":
		s.Held()
		return 5, nil
	case "stubborn":
		<-ctx.Done()
		g.running <- struct{}{}
		return <-g.release, nil
	case "hang":
		g.running <- struct{}{}
		select {
		case code := <-g.release:
			return code, nil
		case <-ctx.Done():
			g.mu.Lock()
			g.cut = append(g.cut, c)
			g.mu.Unlock()
			return 0, fmt.Errorf("%w: %w", vm.ErrLost, context.Cause(ctx))
		}
	}
	return 0, nil
}

func (g *fakeGuest) Address(context.Context) (netip.Addr, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leaseless > 0 {
		g.leaseless--
		return netip.Addr{}, errors.New("no lease yet")
	}
	return netip.MustParseAddr("192.168.64.7"), nil
}

func (g *fakeGuest) Close() error { return nil }

// attempt is a shim within the test: its lock, its socket and its commands.
type attempt struct {
	dir      string
	commands *commands
	gone     func()
}

func serveAttempt(t testing.TB, g vm.Guest) attempt {
	t.Helper()
	dir := t.TempDir()
	lock := holdLock(t, dir)
	socket, err := listen(filepath.Join(dir, socketFile))
	if err != nil {
		t.Fatal(err)
	}
	c := newCommands(dir, g, Logs{})
	go c.serve(socket)
	gone := sync.OnceFunc(func() {
		c.close()
		_ = socket.Close()
		_ = lock.Close()
	})
	t.Cleanup(gone)
	return attempt{dir: dir, commands: c, gone: gone}
}

func holdLock(t testing.TB, dir string) *os.File {
	t.Helper()
	lock, err := os.Create(filepath.Join(dir, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return lock
}

func guestRun(id string, argv ...string) GuestRun {
	return GuestRun{ID: id, Command: vm.GuestCommand{Argv: argv}, Timeout: deadline}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

func mustRun(t *testing.T, dir string, r GuestRun) {
	t.Helper()
	if err := Run(bounded(t), dir, r); err != nil {
		t.Fatalf("running %s: %v", r.ID, err)
	}
}

func mustEnd(t *testing.T, dir, id string) *CommandEnd {
	t.Helper()
	end, err := AwaitCommand(bounded(t), dir, id)
	if err != nil {
		t.Fatalf("waiting for %s: %v", id, err)
	}
	return end
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(deadline):
		t.Fatalf("never happened: %s", what)
		panic("unreachable")
	}
}
