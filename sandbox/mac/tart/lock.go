package tart

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lockConfig takes the POSIX write lock on a VM's config.json that marks it as
// running. The lock belongs to the process and ends when *any* descriptor of the file
// is closed in it: the caller keeps the returned file and never opens the path again.
// A nil file without an error means that another process holds the lock.
func lockConfig(vm vmDir) (*os.File, error) {
	f, err := os.OpenFile(vm.config(), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the configuration to lock it: %w", err)
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, wholeFile())
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", vm.config(), err), f.Close())
	}
	return f, nil
}

// holder returns the process that runs the VM, 0 when none does.
func (vm vmDir) holder() int {
	f, err := os.OpenFile(vm.config(), os.O_RDWR, 0)
	if err != nil {
		return 0 // deleted meanwhile: not running
	}
	defer func() { _ = f.Close() }()
	lock := wholeFile()
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}

func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK} }

// flocked is an advisory lock on a file or directory, given up by close.
type flocked struct{ f *os.File }

// flock waits for the lock on an existing path.
func flock(path string) (flocked, error) {
	f, err := os.Open(path)
	if err != nil {
		return flocked{}, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return flocked{}, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
	}
	return flocked{f}, nil
}

// tryFlock is flock that does not wait: taken is false when somebody has the lock.
func tryFlock(path string) (l flocked, taken bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return flocked{}, false, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return flocked{}, false, nil
		}
		return flocked{}, false, fmt.Errorf("locking %s: %w", path, err)
	}
	return flocked{f}, true, nil
}

// holds reports whether path is still what was locked.
func (l flocked) holds(path string) bool {
	locked, err := l.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(locked, there)
}

func (l flocked) close() {
	if l.f != nil {
		_ = l.f.Close()
	}
}
