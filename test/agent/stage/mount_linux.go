package stage

import (
	"errors"
	"fmt"
	"syscall"
)

func mountSmall(path string, bytes int64) error {
	return syscall.Mount("macfleet-stage", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes))
}

// unmount is no error where nothing is mounted.
func unmount(path string) error {
	err := syscall.Unmount(path, syscall.MNT_DETACH)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOENT) {
		return nil
	}
	return err
}
