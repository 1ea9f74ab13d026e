package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/sandbox/subprocess"
)

// interruptGrace is how long the go command may take to end its compilers and remove its work folder once interrupted.
const interruptGrace = 10 * time.Second

// goOutput runs the go command in dir and returns what it printed on standard output.
func goOutput(ctx context.Context, dir, doing string, args ...string) (string, error) {
	var stdout bytes.Buffer
	if err := runGo(ctx, dir, doing, &stdout, io.Discard, args...); err != nil {
		return "", err
	}
	return stdout.String(), nil
}

// runGo runs the go command in dir; stderr also sees what it prints on standard error, while it does.
// The compilers end with the command, when ctx ends and when this process dies.
func runGo(ctx context.Context, dir, doing string, stdout, stderr io.Writer, args ...string) error {
	path, err := exec.LookPath("go")
	if err != nil {
		return ErrNoGo
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Stdout = stdout
	cmd.Stderr = io.MultiWriter(&said, stderr)
	cmd.Cancel = func() error { return subprocess.SignalGroup(cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptGrace
	subprocess.Isolate(cmd, syscall.SIGINT)
	runtime.LockOSThread() // see isolate
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", doing, ctx.Err())
		}
		return &CompileError{Doing: doing, Output: said.String(), Err: err}
	}
	return nil
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
