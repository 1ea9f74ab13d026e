package cluster

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

// process is one subprocess of the cluster, from its start to its end.
type process struct {
	name    string
	logFile string
	cmd     *exec.Cmd
	// ended is closed when the process is gone; err says how it went, from then on.
	ended chan struct{}
	err   error
	// expected is set before somebody makes the process end.
	expected atomic.Bool
}

// startProcess starts cmd with its standard error, and its standard output unless taken, appended to logFile.
// A launcher that dies takes the process with it, by deathSignal.
func startProcess(name, logFile string, cmd *exec.Cmd, deathSignal syscall.Signal) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of the %s: %w", name, err)
	}
	cmd.Stderr = log
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	isolate(cmd, deathSignal)
	p := &process{name: name, logFile: logFile, cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(log, started)
	return p, <-started
}

// run starts the process and sees it to its end on one thread, see isolate.
func (p *process) run(log *os.File, started chan<- error) {
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

func (p *process) pid() int { return p.cmd.Process.Pid }

// exit is the error for a process that ended by itself.
func (p *process) exit() error {
	return &ExitError{Process: p.name, LogFile: p.logFile, Err: p.err}
}

// stop asks the process to end, and kills it after grace or when ctx ends. It returns when the process is gone.
func (p *process) stop(ctx context.Context, grace time.Duration) error {
	p.expected.Store(true)
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return p.kill()
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	return p.kill()
}

func (p *process) kill() error {
	if err := signalGroup(p.pid(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}
