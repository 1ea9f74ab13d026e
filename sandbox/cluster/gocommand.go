package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/sandbox/subprocess"
)

// interruptGrace is how long the go command may take to end its compilers and remove its work folder once interrupted.
const interruptGrace = 10 * time.Second

// GoCommand is how the go command is run. Its compilers end with it, when ctx ends and when this process dies; a Ctrl-C
// at the terminal reaches this process alone, which so always knows why the command ended.
type GoCommand struct {
	// Dir is where it runs, and Doing what it is run for, for errors.
	Dir, Doing string
	// Env is added to the environment of this process. Unless it says otherwise the command runs in
	// the checkout's workspace and without cgo, whatever that environment says: what is built is the
	// same whoever asks, and needs no C library of this machine.
	Env []string
	// Stdout and Stderr get what it prints, while it does; nil: nobody does.
	Stdout, Stderr io.Writer
}

// Run runs the go command and waits for its end.
//
// Errors: ErrNoGo; a *CompileError with what the command printed; and that of ctx when it ended first.
func (g GoCommand) Run(ctx context.Context, args ...string) error {
	path, err := exec.LookPath("go")
	if err != nil {
		return ErrNoGo
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = g.Dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOWORK="), g.Env...)
	cmd.Stdout = g.Stdout
	cmd.Stderr = &said
	if g.Stderr != nil {
		cmd.Stderr = io.MultiWriter(&said, g.Stderr)
	}
	cmd.Cancel = func() error { return subprocess.SignalGroup(cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptGrace
	subprocess.Isolate(cmd, syscall.SIGINT)
	runtime.LockOSThread() // see Isolate
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", g.Doing, ctx.Err())
		}
		return &CompileError{Doing: g.Doing, Output: said.String(), Err: err}
	}
	return nil
}

// goOutput runs the go command in dir and returns what it printed on standard output.
func goOutput(ctx context.Context, dir, doing string, args ...string) (string, error) {
	var stdout bytes.Buffer
	err := GoCommand{Dir: dir, Doing: doing, Stdout: &stdout}.Run(ctx, args...)
	return stdout.String(), err
}

// lastLine is the last line of text that says anything.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// lineWriter calls line for each full line written to it.
type lineWriter struct {
	line    func(string)
	partial []byte
}

// Write never fails.
func (w *lineWriter) Write(data []byte) (int, error) {
	w.partial = append(w.partial, data...)
	for {
		end := bytes.IndexByte(w.partial, '\n')
		if end < 0 {
			return len(data), nil
		}
		w.line(string(w.partial[:end]))
		w.partial = w.partial[end+1:]
	}
}
