package hostos

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ProcessGone returns a channel that is closed once the process has ended, also
// when it is nobody's child here, and at once when it is gone already. A number can
// be given to another process between its owner's end and this call: who knows
// the process by a lock looks at the lock again afterwards. The watch lasts until
// the process ends; share one where many wait.
func ProcessGone(pid int) (<-chan struct{}, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return gone(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("watching process %d: %w", pid, os.NewSyscallError("pidfd_open", err))
	}
	ch := make(chan struct{})
	go func() {
		defer close(ch)
		defer func() { _ = unix.Close(fd) }()
		// It becomes readable when the process ends, reaped or not.
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return ch, nil
}
