package pod

import (
	"context"
	"time"

	"github.com/macfleet/macfleet/internal/agent/shim"
)

// Runs runs machines and commands in their guests beside this process, which may
// end meanwhile: each attempt in a directory of its own. Shims is the one on a host.
type Runs interface {
	// Start starts a machine in a directory that was not used before.
	Start(dir string, spec shim.Spec) error
	// Alive reports whether somebody still runs the machine, or writes down its end.
	Alive(dir string) (bool, error)
	// Gone is closed once Alive is false.
	Gone(dir string) <-chan struct{}
	// Started reports whether the machine ever was about to run.
	Started(dir string) (bool, error)
	// Exit returns how the machine's command ended, nil when nobody wrote it down.
	Exit(dir string) (*shim.Exit, error)
	// Kill ends the machine at once.
	Kill(dir string) error
	// Run has a command run in the guest, as shim.Run.
	Run(ctx context.Context, dir string, r shim.GuestRun) error
	// Await returns the end of a command, as shim.AwaitCommand.
	Await(ctx context.Context, dir, id string) (*shim.CommandEnd, error)
	// Command reads what is known of a command, as shim.ReadCommand.
	Command(dir, id string) (begun bool, end *shim.CommandEnd, err error)
	// Begun is when a command began; zero when it is not known.
	Begun(dir, id string) time.Time
}

// Shims implements Runs by processes of their own.
type Shims struct{ Starter shim.Starter }

var _ Runs = Shims{}

// Start starts a shim.
func (s Shims) Start(dir string, spec shim.Spec) error { return s.Starter.Start(dir, spec) }

// Alive looks at the shim's lock.
func (Shims) Alive(dir string) (bool, error) { return shim.Alive(dir) }

// Gone waits for the shim's lock.
func (Shims) Gone(dir string) <-chan struct{} { return shim.Gone(dir) }

// Started looks for what a shim writes first.
func (Shims) Started(dir string) (bool, error) {
	_, started, err := shim.ReadStarted(dir)
	return started, err
}

// Exit reads what a shim writes last.
func (Shims) Exit(dir string) (*shim.Exit, error) {
	e, found, err := shim.ReadExit(dir)
	if err != nil || !found {
		return nil, err
	}
	return &e, nil
}

// Kill asks the shim.
func (Shims) Kill(dir string) error { return shim.Kill(dir) }

// Run asks the shim.
func (Shims) Run(ctx context.Context, dir string, r shim.GuestRun) error {
	return shim.Run(ctx, dir, r)
}

// Await asks the shim.
func (Shims) Await(ctx context.Context, dir, id string) (*shim.CommandEnd, error) {
	return shim.AwaitCommand(ctx, dir, id)
}

// Command reads a shim's records.
func (Shims) Command(dir, id string) (bool, *shim.CommandEnd, error) {
	return shim.ReadCommand(dir, id)
}

// Begun reads a shim's record.
func (Shims) Begun(dir, id string) time.Time {
	b, _, err := shim.ReadBegun(dir, id)
	if err != nil {
		return time.Time{}
	}
	return b.Time
}
