package subprocess

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// Isolate puts cmd into a process group of its own, so that a Ctrl-C at the terminal reaches the launcher alone and
// the order of stopping stays its decision, and has the kernel send deathSignal should the launcher die.
// The kernel means the launcher's thread: whoever starts cmd must stay locked to it until cmd ended.
func Isolate(cmd *exec.Cmd, deathSignal syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: deathSignal}
}

// SignalGroup signals the process group that pid leads. A group that is gone already is no error.
func SignalGroup(pid int, signal syscall.Signal) error {
	if err := syscall.Kill(-pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signalling process group %d: %w", pid, err)
	}
	return nil
}
