// Package process starts and reaps every process of a simulated Mac on behalf
// of its pid 1. It knows two identities, root and the console user, gives the
// user an own user namespace so that getuid(2) tells the truth, and runs the
// Linux twin where a Mac would run a darwin/arm64 program. Who may run what is
// decided by others.
package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/sandbox/mac/amfi"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// ErrBadCPU is returned for a darwin program without a twin, and for one that
// is not an arm64 executable: the words a Mac uses.
var ErrBadCPU = errors.New("Bad CPU type in executable") //nolint:staticcheck // the text macOS prints

// DieCommand has the simulator's program kill itself, in place of a program
// that the kernel kills at its start.
const DieCommand = "die"

// Die ends the calling process by SIGKILL.
func Die() { _ = unix.Kill(os.Getpid(), unix.SIGKILL) }

// Spec is a program to start in a session of its own.
type Spec struct {
	Path string
	Argv []string
	Env  []string
	Dir  string
	// UID is wire.RootUID or wire.UserUID.
	UID int
	// Files become descriptors 0, 1 and 2.
	Files [3]*os.File
	// Terminal says that descriptor 0 is a terminal to take control of.
	Terminal bool
}

// Process is a started program.
type Process struct {
	PID int
	// Killed is why the kernel kills the process at once, or nothing.
	Killed string
	done   chan struct{}
	status syscall.WaitStatus
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns how the process ended, once it has.
func (p *Process) Wait() syscall.WaitStatus {
	<-p.done
	return p.status
}

// SignalGroup signals the whole process group.
func (p *Process) SignalGroup(sig syscall.Signal) { _ = syscall.Kill(-p.PID, sig) }

// Table holds the live children of pid 1.
type Table struct {
	twins *twins
	mu    sync.Mutex
	live  map[int]*Process
}

// NewTable returns a table whose Mach-O programs run as the twins found in a
// folder, each named by the SHA-256 of the darwin file, as far as trust lets them.
// Trust may be nil: then every program may run.
func NewTable(twinDir string, trust Trust) *Table {
	return &Table{twins: newTwins(twinDir, trust), live: map[int]*Process{}}
}

// Start starts a program. The lock is held from the fork to the registration,
// so that Reap never meets a child it does not know.
func (t *Table) Start(s Spec) (*Process, error) {
	path, err := t.twins.resolve(s.Path)
	p := &Process{done: make(chan struct{})}
	var killed *amfi.KilledError
	switch {
	case errors.As(err, &killed):
		p.Killed = amfi.KillReason
		path, s.Argv = wire.BinaryPath, []string{"macsim", DieCommand}
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	files := make([]uintptr, len(s.Files))
	for i, f := range s.Files {
		files[i] = f.Fd()
	}
	pid, err := syscall.ForkExec(path, s.Argv, &syscall.ProcAttr{Dir: s.Dir, Env: s.Env, Files: files, Sys: attributes(s)})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Path, err)
	}
	p.PID = pid
	t.live[pid] = p
	return p, nil
}

// attributes put a user's process into a user namespace where the one real
// identity is called 501; root keeps the namespace of the Mac, where it is 0.
func attributes(s Spec) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Setctty: s.Terminal}
	if s.UID == wire.RootUID {
		return a
	}
	a.Cloneflags = syscall.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: wire.UserUID, HostID: 0, Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: wire.StaffGID, HostID: 0, Size: 1}}
	return a
}

// Reap collects every child that has ended, orphans included, and is called
// for each SIGCHLD.
func (t *Table) Reap() {
	for {
		var status syscall.WaitStatus
		t.mu.Lock()
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		p := t.live[pid]
		delete(t.live, pid)
		t.mu.Unlock()
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if p != nil {
			p.status = status
			close(p.done)
		}
	}
}
