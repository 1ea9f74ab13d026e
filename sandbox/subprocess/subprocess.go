// Package subprocess runs one long-lived program: its output goes to a log file, it
// dies with its launcher, and stopping it has an end. What the program is for is
// left to the caller.
package subprocess

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// Process is one program, from its start to its end.
type Process struct {
	name    string
	logFile string
	cmd     *exec.Cmd
	// ended is closed when the process is gone; err says how it went, from then on.
	ended chan struct{}
	err   error
	// expected is set before somebody makes the process end.
	expected atomic.Bool
}

// Start starts cmd with its standard error, and its standard output unless taken, appended to logFile.
// A launcher that dies takes the process with it, by deathSignal.
func Start(name, logFile string, cmd *exec.Cmd, deathSignal syscall.Signal) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of the %s: %w", name, err)
	}
	cmd.Stderr = log
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	Isolate(cmd, deathSignal)
	p := &Process{name: name, logFile: logFile, cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(log, started)
	return p, <-started
}

// run starts the process and sees it to its end on one thread, see Isolate.
func (p *Process) run(log *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	defer log.Close() //nolint:errcheck // nothing was written through this descriptor
	if err := p.cmd.Start(); err != nil {
		started <- fmt.Errorf("starting the %s: %w", p.name, err)
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
}

// Name is the name it was started with.
func (p *Process) Name() string { return p.name }

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Expected reports that somebody made the process end, by Stop or Kill.
func (p *Process) Expected() bool { return p.expected.Load() }

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exit is the error for a process that ended by itself.
func (p *Process) Exit() error {
	return &ExitError{Process: p.name, LogFile: p.logFile, Err: p.err}
}

// Stop asks the process to end, and kills it after grace or when ctx ends. It returns when the process is gone.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	p.expected.Store(true)
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return p.Kill()
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	return p.Kill()
}

// Kill ends the process and its group at once.
func (p *Process) Kill() error {
	p.expected.Store(true)
	if err := SignalGroup(p.PID(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// ExitError is a process that ended by itself.
type ExitError struct {
	// Process is the program's name.
	Process string
	// LogFile holds what the process said.
	LogFile string
	// Err is how it ended; nil for exit code 0.
	Err error
}

// Error names the process, how it ended and where to read why.
func (e *ExitError) Error() string {
	how := "exit status 0"
	if e.Err != nil {
		how = e.Err.Error()
	}
	return fmt.Sprintf("the %s ended by itself: %s (see %s)", e.Process, how, e.LogFile)
}

// Unwrap returns how the process ended.
func (e *ExitError) Unwrap() error { return e.Err }
