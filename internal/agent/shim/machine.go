package shim

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// tailBytes of the output go into the exit record.
	tailBytes = 2048
	// killPatience is how long a command may take to heed SIGTERM before it is killed.
	killPatience = 3 * time.Second
	// codeNotExecuted, as a shell has it for a command it cannot run.
	codeNotExecuted = 127
)

// runMachine runs the command that is the machine to its end.
func runMachine(dir string, spec Spec, terminate <-chan os.Signal) Exit {
	exit := Exit{Started: time.Now()}
	path := filepath.Join(dir, outputFile)
	// To append: the file is emptied under the command when it is full.
	output, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return exit.failed(err)
	}
	defer func() { _ = output.Close() }()
	cmd := exec.CommandContext(context.Background(), spec.Run.Path, spec.Run.Args...)
	cmd.Env = spec.Run.Env
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		return exit.failed(err)
	}
	f := &follower{file: output, path: path, limits: spec.Logs.withDefaults()}
	if spec.Log != "" {
		log := newLog(filepath.Join(dir, spec.Log), spec.Logs)
		defer func() { _ = log.Close() }()
		f.lines = log.stream("stdout")
	}
	stop := f.start()
	waitErr := await(cmd, terminate, killPatience)
	ended := time.Now()
	stop()
	return exit.ended(cmd.ProcessState, ended, waitErr, f.tail())
}

// start follows in the background; the function it returns ends that, after what
// was written until then.
func (f *follower) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { f.follow(ctx) })
	return func() {
		cancel()
		following.Wait()
	}
}

// await waits for the command; a signal to us is one to end it. One that does not heed
// that is killed after timeout.
func await(cmd *exec.Cmd, terminate <-chan os.Signal, timeout time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var late <-chan time.Time
	for {
		select {
		case <-terminate:
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if late == nil {
				late = time.After(timeout)
			}
		case <-late:
			_ = cmd.Process.Kill()
		case err := <-ended:
			return err
		}
	}
}

func (e Exit) failed(err error) Exit {
	e.Code, e.Ended, e.Tail = codeNotExecuted, time.Now(), err.Error()
	return e
}

func (e Exit) ended(state *os.ProcessState, at time.Time, err error, tail string) Exit {
	if state == nil {
		return e.failed(err)
	}
	e.Code, e.Ended, e.Tail = state.ExitCode(), at, tail
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = int(status.Signal())
	}
	return e
}
