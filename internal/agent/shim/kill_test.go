package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// hostGuest stands for a guest in shims that are processes of their own: its
// commands run on this host, and die with the shim that holds them, as a guest's do.
type hostGuest struct{}

func (hostGuest) Up(context.Context) error { return nil }

func (hostGuest) Address(context.Context) (netip.Addr, error) { return netip.Addr{}, nil }

func (hostGuest) Exec(ctx context.Context, c vm.GuestCommand, s vm.Streams) (int, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = append(os.Environ(), c.Env...), s.Stdout, s.Stderr, c.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := runFed(cmd, s)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("%w: %w", vm.ErrLost, context.Cause(ctx))
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return exit.ExitCode(), nil
	case err != nil:
		return 0, vm.ErrNotExecuted
	}
	return 0, nil
}

func (hostGuest) Close() error { return nil }

// runFed runs a command without waiting for a reader of its input.
func runFed(cmd *exec.Cmd, s vm.Streams) error {
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if s.Began != nil {
		s.Began(-cmd.Process.Pid)
	}
	go func() {
		defer in.Close()
		if s.Stdin != nil {
			_, _ = io.Copy(in, s.Stdin)
		}
	}()
	return cmd.Wait()
}

func killShim(t *testing.T, dir string) {
	t.Helper()
	awaitFile(t, filepath.Join(dir, startedFile))
	s, found, err := ReadStarted(dir)
	if err != nil || !found {
		t.Fatalf("found %v, err %v", found, err)
	}
	if err := syscall.Kill(s.ShimPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, dir)
}

// shell is a command for the guest of a shim that was started as a process.
func shell(id, script string) GuestRun {
	r := guestRun(id, "/bin/sh", "-c", script)
	r.Command.Env, r.Log = []string{"PATH=/usr/bin:/bin", "WHO=guest"}, id+".log"
	return r
}

func TestCommandsOfAProcess(t *testing.T) {
	// Not awaited: a shim takes commands from the moment it was started.
	dir := startSpec(t, "exec sleep 60", Spec{GuestSocket: "somewhere", Log: "tart.log"})
	mustRun(t, dir, shell("init-0", "echo hello $WHO; exit 4"))
	if end := mustEnd(t, dir, "init-0"); end == nil || end.Outcome != Exited || end.Code != 4 {
		t.Errorf("end %+v", end)
	}
	if got := read(t, filepath.Join(dir, "init-0.log")); !strings.HasSuffix(got, " stdout F hello guest\n") {
		t.Errorf("log %q", got)
	}
}

func TestMachineEndsUnderItsCommand(t *testing.T) {
	dir := startSpec(t, "exec sleep 60", Spec{GuestSocket: "somewhere"})
	mustRun(t, dir, shell("main", "exec sleep 60"))
	if err := Kill(dir); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, dir)
	if end := mustEnd(t, dir, "main"); end == nil || end.Outcome != Lost {
		t.Errorf("end %+v", end)
	}
	if e, found, err := ReadExit(dir); err != nil || !found || e.Signal != int(syscall.SIGTERM) {
		t.Errorf("exit %+v, found %v, err %v", e, found, err)
	}
}

func TestKilledShimLosesItsCommands(t *testing.T) {
	runs := untilTheTestEnds(t) // whatever the commands and the kill take
	dir := startSpec(t, runs, Spec{GuestSocket: "somewhere"})
	mustRun(t, dir, shell("setup", "true"))
	mustEnd(t, dir, "setup")
	mustRun(t, dir, shell("main", runs))
	ended := make(chan error, 1)
	go func() {
		end, err := AwaitCommand(bounded(t), dir, "main")
		if end != nil {
			err = fmt.Errorf("an end from nowhere: %+v", end)
		}
		ended <- err
	}()
	killShim(t, dir)
	if err := receive(t, "the command is lost", ended); err != nil {
		t.Error(err)
	}
	if begun, end, err := ReadCommand(dir, "main"); !begun || end != nil || err != nil {
		t.Errorf("begun %v, end %+v, err %v", begun, end, err)
	}
	if end := mustEnd(t, dir, "setup"); end == nil || end.Outcome != Exited {
		t.Errorf("end %+v", end)
	}
	if err := Run(bounded(t), dir, shell("late", "true")); !errors.Is(err, ErrNoShim) {
		t.Errorf("err %v", err)
	}
}

func TestShimWithoutAGuestRefuses(t *testing.T) {
	dir := startSpec(t, "exec sleep 60", Spec{})
	var refused *RefusedError
	if err := Run(bounded(t), dir, shell("main", "true")); !errors.As(err, &refused) || refused.Code != RefusedInvalid {
		t.Errorf("err %v", err)
	}
}

func TestLongDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30), "attempt-0")
	if err := starter(t).Start(dir, Spec{Run: Command{Path: "/bin/sleep", Args: []string{"60"}}, GuestSocket: "somewhere"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Kill(dir); err != nil {
			t.Error(err)
		}
		awaitGone(t, dir)
	})
	mustRun(t, dir, shell("main", "exit 5"))
	if end := mustEnd(t, dir, "main"); end == nil || end.Code != 5 {
		t.Errorf("end %+v", end)
	}
}

func TestShimWithoutASocketHoldsItsMachine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "attempt-0")
	// In the place of the socket, as a full disk would be.
	if err := os.MkdirAll(filepath.Join(dir, socketFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := starter(t).Start(dir, Spec{Run: Command{Path: "/bin/sh", Args: []string{"-c", "exec sleep 60"}}, GuestSocket: "somewhere"}); err != nil {
		t.Fatal(err)
	}
	err := Run(bounded(t), dir, shell("main", "true"))
	if !errors.Is(err, ErrNoShim) || !strings.Contains(err.Error(), "could not open its socket") {
		t.Errorf("err %v", err)
	}
	if err := Kill(dir); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, dir)
	if _, found, err := ReadExit(dir); !found || err != nil {
		t.Errorf("found %v, err %v", found, err)
	}
}
