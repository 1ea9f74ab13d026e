package cluster

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func supported() error { return nil }

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
