// Package shim is the small process that outlives the agent: one for each machine,
// in a session of its own. It runs the command that is the machine, with its output
// in a file, and writes down how that ended; and it holds the commands that run in
// the guest, which are given up when the machine ends, with their logs and
// their exit codes. It knows nothing of Pods or of tart: which commands to run, when
// and how often is left to package pod.
//
// A shim holds a lock on a file for as long as it lives. Who wants to know when it
// ends waits for that lock: no polling, no process ids that may have been given to
// somebody else, and it works for a shim that an earlier agent started.
//
// Commands are asked for on a socket next to the lock, in a protocol with a version,
// as agents are replaced while shims live. All that is learnt of them is on the disk
// too, where it can be read without a shim.
package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/guest"
	"github.com/macfleet/macfleet/internal/atomicfile"
)

// lockFD is where the parent passes the lock: the first of ExtraFiles.
const lockFD = 3

// gcPercent trades a little time for memory: a shim has next to nothing to do, and
// there is one for each machine.
const gcPercent = 25

// Main is the life of a shim for the attempt in dir, started by Start. SIGTERM
// ends the machine's command, by SIGKILL where it does not heed ours; SIGHUP and SIGINT are ignored. It returns
// when that command has ended and all that is known is written down.
func Main(dir string) error { return runShim(dir, dialGuest) }

// dialGuest connects lazily, as the socket is there later than we are.
func dialGuest(socket string) vm.Guest { return guest.Dial(socket, guest.Options{}) }

// runShim is Main with any way to a guest.
func runShim(dir string, dial func(socket string) vm.Guest) error {
	lock := os.NewFile(lockFD, lockFile)
	if _, err := lock.Stat(); err != nil {
		return fmt.Errorf("this process is started by the agent only: %w", err)
	}
	// The command must not inherit the lock, or it would seem to be a shim.
	syscall.CloseOnExec(lockFD)
	debug.SetGCPercent(gcPercent)
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)

	var spec Spec
	if err := readJSON(filepath.Join(dir, specFile), &spec); err != nil {
		return err
	}
	var inside vm.Guest
	if spec.GuestSocket != "" {
		inside = dial(spec.GuestSocket)
		defer func() { _ = inside.Close() }()
	}
	err := runWithGuest(dir, spec, inside, terminate)
	return errors.Join(err, lock.Close())
}

// runWithGuest runs the machine, and commands in its guest meanwhile.
func runWithGuest(dir string, spec Spec, inside vm.Guest, terminate <-chan os.Signal) error {
	held := newCommands(dir, inside, spec.Logs)
	started := Started{ShimPID: os.Getpid(), Time: time.Now()}
	// A machine without commands is better than none.
	socket, err := listen(filepath.Join(dir, socketFile))
	if err != nil {
		started.SocketError = err.Error()
	} else {
		defer socket.Close()
	}
	if err := atomicfile.WriteJSON(filepath.Join(dir, startedFile), started); err != nil {
		return err
	}
	if socket != nil {
		// Not before: who was answered finds the record, and can have us killed.
		go held.serve(socket)
	}
	exit := runMachine(dir, spec, terminate)
	held.close()
	// Last: who finds it finds the ends of all commands too.
	return record(filepath.Join(dir, exitFile), exit, func() {})
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Base(path), err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("parsing %s: %w", filepath.Base(path), err)
	}
	return nil
}
