package tart

import (
	"context"
	"fmt"
	"syscall"
)

// suspend asks run to save the guest, and waits until it has ended.
func (c *cli) suspend(ctx context.Context, args []string) error {
	words, err := newArguments("suspend <name>").parse(args, 1, 1)
	if err != nil {
		return err
	}
	vm, err := c.home.local(words[0])
	if err != nil {
		return err
	}
	pid := vm.holder()
	if pid == 0 { // tart says it twice, one within the other
		return stateError(fmt.Sprintf(`VM "%v" is not running`, notRunning(words[0])))
	}
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		return runtimeError(fmt.Sprintf("failed to send SIGUSR1 signal to the VM %q: %v", words[0], err))
	}
	for vm.holder() == pid {
		if err := pause(ctx, stopPoll); err != nil {
			return err
		}
	}
	return nil
}
