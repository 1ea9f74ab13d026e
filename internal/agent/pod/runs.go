package pod

import (
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Runs runs commands that outlive this process, each in a directory of its own.
// Shims is the one on a host.
type Runs interface {
	// Start starts the command in a directory that was not used before.
	Start(dir string, command vm.Command) error
	// Alive reports whether somebody still runs the command, or writes down its end.
	Alive(dir string) (bool, error)
	// Gone is closed once Alive is false.
	Gone(dir string) <-chan struct{}
	// Started reports whether the command ever was about to run.
	Started(dir string) (bool, error)
	// Exit returns how the command ended, nil when nobody wrote it down.
	Exit(dir string) (*shim.Exit, error)
	// Kill ends the command at once.
	Kill(dir string) error
}

// Shims implements Runs by processes of their own.
type Shims struct{ Starter shim.Starter }

var _ Runs = Shims{}

// Start starts a shim.
func (s Shims) Start(dir string, c vm.Command) error {
	return s.Starter.Start(dir, shim.Spec{Run: shim.Command{Path: c.Path, Args: c.Args, Env: c.Env}})
}

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
