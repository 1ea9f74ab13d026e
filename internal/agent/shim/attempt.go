package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Starter starts shims. Argv is the command line that leads to Main; the
// directory of the attempt is added to it.
type Starter struct{ Argv []string }

// Start starts a shim for the attempt in dir, which is made and must not have
// been used before. It returns when the shim runs; the shim outlives the caller.
func (s Starter) Start(dir string, spec Spec) error {
	if len(s.Argv) == 0 {
		return errors.New("starting the process that runs a VM: no command line for it")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a directory for the process that runs a VM: %w", err)
	}
	if err := writeSpec(filepath.Join(dir, specFile), spec); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("making the lock of the process that runs a VM: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking for the process that runs a VM: %w", err)
	}
	return s.spawn(dir, lock)
}

// writeSpec does not wait for the disk: what starts with it is gone with the power, too.
func writeSpec(path string, spec Spec) error {
	data, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encoding what the process that runs a VM is to do: %w", err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing down what the process that runs a VM is to do: %w", err)
	}
	return nil
}

// spawn hands the lock over: it is held as long as any copy of it is open, and
// ours is closed by the caller.
func (s Starter) spawn(dir string, lock *os.File) error {
	// No context of the caller's: the shim outlives it.
	cmd := exec.CommandContext(context.Background(), s.Argv[0], append(append([]string(nil), s.Argv[1:]...), dir)...)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the process that runs a VM: %w", err)
	}
	// Reaps the shim if we live longer than it does.
	go func() { _ = cmd.Wait() }()
	return nil
}

// Alive reports whether a shim runs for the attempt in dir.
func Alive(dir string) (bool, error) {
	lock, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for the process that runs a VM: %w", err)
	}
	defer func() { _ = lock.Close() }()
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for the process that runs a VM: %w", err)
	}
	return false, nil
}

// lookAgain is how long after it could not be looked for a shim it is tried again.
const lookAgain = time.Second

// Gone returns a channel that is closed once no shim runs for the attempt in dir. While that
// cannot be found out, as where too many files are open, a shim is taken to run.
func Gone(dir string) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for awaitUnlocked(filepath.Join(dir, lockFile)) != nil {
			time.Sleep(lookAgain)
		}
	}()
	return gone
}

// awaitUnlocked returns nil once nobody holds the lock.
func awaitUnlocked(path string) error {
	lock, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	for {
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// ReadExit returns the exit record of the attempt in dir; false when there is
// none.
func ReadExit(dir string) (Exit, bool, error) {
	var e Exit
	found, err := readRecord(filepath.Join(dir, exitFile), &e)
	return e, found, err
}

// ReadStarted returns when the shim of the attempt in dir began; false when it
// never did.
func ReadStarted(dir string) (Started, bool, error) {
	var s Started
	found, err := readRecord(filepath.Join(dir, startedFile), &s)
	return s, found, err
}

func readRecord(path string, into any) (bool, error) {
	err := readJSON(path, into)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Kill has the shim of the attempt in dir end its command: by SIGTERM, and by SIGKILL
// a few seconds later where that was not heeded. It is no error when no shim runs.
func Kill(dir string) error {
	alive, err := Alive(dir)
	if err != nil || !alive {
		return err
	}
	started, found, err := ReadStarted(dir)
	if err != nil || !found {
		return err
	}
	if err := syscall.Kill(started.ShimPID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending a VM: %w", err)
	}
	return nil
}
