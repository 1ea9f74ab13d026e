// Package shim is the small process that outlives the agent: one for each machine,
// in a session of its own. It runs one command with its output in a file, and
// writes down how it ended. It knows nothing of Pods or of tart, and uses the
// standard library only.
//
// A shim holds a lock on a file for as long as it lives. Who wants to know when it
// ends waits for that lock: no polling, no process ids that may have been given to
// somebody else, and it works for a shim that an earlier agent started.
package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// lockFD is where the parent passes the lock: the first of ExtraFiles.
	lockFD = 3
	// tailBytes of the output go into the exit record.
	tailBytes = 2048
	// codeNotExecuted, as a shell has it for a command it cannot run.
	codeNotExecuted = 127
)

// Main is the life of a shim for the attempt in dir, started by Start. SIGTERM
// ends the command at once; SIGHUP and SIGINT are ignored.
func Main(dir string) error {
	lock := os.NewFile(lockFD, lockFile)
	if _, err := lock.Stat(); err != nil {
		return fmt.Errorf("the shim is started by the agent only: %w", err)
	}
	// The command must not inherit the lock, or it would seem to be a shim.
	syscall.CloseOnExec(lockFD)
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)

	var spec Spec
	if err := readJSON(filepath.Join(dir, specFile), &spec); err != nil {
		return err
	}
	if err := WriteJSON(filepath.Join(dir, startedFile), Started{ShimPID: os.Getpid(), Time: time.Now()}); err != nil {
		return err
	}
	exit := run(dir, spec.Run, terminate)
	err := WriteJSON(filepath.Join(dir, exitFile), exit)
	return errors.Join(err, lock.Close())
}

func run(dir string, command Command, terminate <-chan os.Signal) Exit {
	exit := Exit{Started: time.Now()}
	output, err := os.OpenFile(filepath.Join(dir, outputFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return exit.failed(err)
	}
	defer func() { _ = output.Close() }()
	cmd := exec.CommandContext(context.Background(), command.Path, command.Args...)
	cmd.Env = command.Env
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		return exit.failed(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case <-terminate:
			_ = cmd.Process.Signal(syscall.SIGTERM)
		case err := <-ended:
			return exit.ended(cmd.ProcessState, err, tail(output))
		}
	}
}

func (e Exit) failed(err error) Exit {
	e.Code, e.Ended, e.Tail = codeNotExecuted, time.Now(), err.Error()
	return e
}

func (e Exit) ended(state *os.ProcessState, err error, tail string) Exit {
	if state == nil {
		return e.failed(err)
	}
	e.Code, e.Ended, e.Tail = state.ExitCode(), time.Now(), tail
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = int(status.Signal())
	}
	return e
}

func tail(f *os.File) string {
	st, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(0, st.Size()-tailBytes)
	data, err := io.ReadAll(io.NewSectionReader(f, from, st.Size()-from))
	if err != nil {
		return ""
	}
	return string(data)
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
