package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

func supported() error { return nil }

// isolate puts cmd into a process group of its own, so that a Ctrl-C at the terminal reaches the launcher alone and
// the order of stopping stays its decision, and has the kernel send deathSignal should the launcher die.
// The kernel means the launcher's thread: whoever starts cmd must stay locked to it until cmd ended.
func isolate(cmd *exec.Cmd, deathSignal syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: deathSignal}
}

// signalGroup signals the process group that pid leads. A group that is gone already is no error.
func signalGroup(pid int, signal syscall.Signal) error {
	if err := syscall.Kill(-pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signalling process group %d: %w", pid, err)
	}
	return nil
}

// tryLock takes an exclusive lock that ends when the last copy of file is closed, whoever holds it.
func tryLock(file *os.File) (locked bool, err error) {
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	return true, nil
}

// freeBytes is what an unprivileged user may still write to the file system of path.
func freeBytes(path string) (uint64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, fmt.Errorf("reading the free space of %s: %w", path, err)
	}
	return stat.Bavail * uint64(stat.Bsize), nil
}
