package guest

import (
	"strings"
	"syscall"
	"testing"
)

func TestWhatKeepsAGuestFromStarting(t *testing.T) {
	const kernel, gone = "allow them, in a container", "start the sandbox again"
	for name, c := range map[string]struct {
		err         error
		says, never string
	}{
		"the kernel refuses a step":    {refused("mounting /proc", syscall.EPERM), kernel, gone},
		"a folder is missing":          {refused("binding /x", syscall.ENOENT), "binding /x: no such file", kernel},
		"the kernel refuses a program": {unbound("/x", syscall.EPERM), kernel, gone},
		"a program is missing":         {unbound("/x", syscall.ENOENT), gone, kernel},
	} {
		if got := c.err.Error(); !strings.Contains(got, c.says) || strings.Contains(got, c.never) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
