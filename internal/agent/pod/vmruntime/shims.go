package vmruntime

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Shims runs VMs and commands in their guests beside this process, which may
// end meanwhile: each attempt in a directory of its own.
type Shims interface {
	// Start starts a VM in a directory that was not used before.
	Start(dir string, spec shim.Spec) error
	// Alive reports whether somebody still runs the VM, or writes down its end.
	Alive(dir string) (bool, error)
	// Gone is closed once Alive is false.
	Gone(dir string) <-chan struct{}
	// Started reports whether the VM ever was about to run.
	Started(dir string) (bool, error)
	// Exit returns how the VM's command ended, nil when nobody wrote it down.
	Exit(dir string) (*shim.Exit, error)
	// Kill ends the VM at once.
	Kill(dir string) error
	// Run has a command run in the guest, as shim.Run.
	Run(ctx context.Context, dir string, r shim.GuestRun) error
	// Await returns the end of a command, as shim.AwaitCommand.
	Await(ctx context.Context, dir, id string) (*shim.CommandEnd, error)
	// Signal tells the process group of a command that Run began, as shim.Signal.
	Signal(ctx context.Context, dir, id string, sig syscall.Signal) error
	// Exec runs a further command in the guest, as shim.ExecTied: it is killed when ctx ends.
	Exec(ctx context.Context, dir string, c vm.GuestCommand, s vm.Streams) (int, error)
	// Dial connects to a port of the guest's own loopback, as shim.DialReserved.
	Dial(ctx context.Context, dir string, port uint16) (net.Conn, error)
	// Command reads what is known of a command, as shim.ReadCommand.
	Command(dir, id string) (begun bool, end *shim.CommandEnd, err error)
	// Begun is when a command began; zero when it is not known.
	Begun(dir, id string) time.Time
}

// ShimProcesses implements Shims by a process for each VM.
type ShimProcesses struct{ Starter shim.Starter }

var _ Shims = ShimProcesses{}

// Start starts a shim.
func (s ShimProcesses) Start(dir string, spec shim.Spec) error { return s.Starter.Start(dir, spec) }

// Alive looks at the shim's lock.
func (ShimProcesses) Alive(dir string) (bool, error) { return shim.Alive(dir) }

// Gone waits for the shim's lock.
func (ShimProcesses) Gone(dir string) <-chan struct{} { return shim.Gone(dir) }

// Started looks for what a shim writes first.
func (ShimProcesses) Started(dir string) (bool, error) {
	_, started, err := shim.ReadStarted(dir)
	return started, err
}

// Exit reads what a shim writes last.
func (ShimProcesses) Exit(dir string) (*shim.Exit, error) {
	e, found, err := shim.ReadExit(dir)
	if err != nil || !found {
		return nil, err
	}
	return &e, nil
}

// Kill asks the shim.
func (ShimProcesses) Kill(dir string) error { return shim.Kill(dir) }

// Run asks the shim.
func (ShimProcesses) Run(ctx context.Context, dir string, r shim.GuestRun) error {
	return shim.Run(ctx, dir, r)
}

// Await asks the shim.
func (ShimProcesses) Await(ctx context.Context, dir, id string) (*shim.CommandEnd, error) {
	return shim.AwaitCommand(ctx, dir, id)
}

// Signal asks the shim.
func (ShimProcesses) Signal(ctx context.Context, dir, id string, sig syscall.Signal) error {
	return shim.Signal(ctx, dir, id, sig)
}

// Exec asks the shim.
func (ShimProcesses) Exec(ctx context.Context, dir string, c vm.GuestCommand, s vm.Streams) (int, error) {
	return shim.ExecTied(ctx, dir, c, s)
}

// Dial asks the shim.
func (ShimProcesses) Dial(ctx context.Context, dir string, port uint16) (net.Conn, error) {
	return shim.DialReserved(ctx, dir, port)
}

// Command reads a shim's records.
func (ShimProcesses) Command(dir, id string) (bool, *shim.CommandEnd, error) {
	return shim.ReadCommand(dir, id)
}

// Begun reads a shim's record.
func (ShimProcesses) Begun(dir, id string) time.Time {
	b, _, err := shim.ReadBegun(dir, id)
	if err != nil {
		return time.Time{}
	}
	return b.Time
}
