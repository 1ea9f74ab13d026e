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
	queue, err := unix.Kqueue()
	if err != nil {
		return nil, fmt.Errorf("watching process %d: %w", pid, os.NewSyscallError("kqueue", err))
	}
	unix.CloseOnExec(queue)
	change := []unix.Kevent_t{{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT}}
	// The kernel refuses the filter for a process that is ending, too.
	if _, err := unix.Kevent(queue, change, nil, nil); err != nil {
		_ = unix.Close(queue)
		if errors.Is(err, unix.ESRCH) {
			return gone(), nil
		}
		return nil, fmt.Errorf("watching process %d: %w", pid, os.NewSyscallError("kevent", err))
	}
	ch := make(chan struct{})
	go func() {
		defer close(ch)
		defer func() { _ = unix.Close(queue) }()
		for {
			_, err := unix.Kevent(queue, nil, make([]unix.Kevent_t, 1), nil)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return ch, nil
}
