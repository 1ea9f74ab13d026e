package tart

import (
	"os/exec"
	"strings"
	"testing"
)

// TestAKernelThatRefusesGuests makes a place where it does and runs a VM there.
func TestAKernelThatRefusesGuests(t *testing.T) {
	t.Parallel()
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("no unshare to make the place with")
	}
	for name, tt := range map[string]struct{ place, says string }{
		"no namespaces": {"echo 0 >/proc/sys/user/max_user_namespaces", "refuses new user, mount or pid namespaces"},
		"masked /proc":  {"mount -t tmpfs none /proc/sys", "mounting /proc: operation not permitted (a guest needs "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := cloned(t, nil, "vm")
			cmd := exec.CommandContext(t.Context(), unshare, "-Urm", "/bin/sh", "-c", tt.place+` && exec "$0" run vm`, m.tart)
			cmd.Env = m.env
			out, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), tt.says) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
