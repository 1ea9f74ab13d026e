// Package hostos reads what the agent must know of the Mac below it: its size,
// its system, its boot session, its disk, and whether it is short of memory or
// processes. It runs macOS commands wherever one exists, so that what it says can
// be checked by hand. It also has what the agent asks of a kernel that each kernel
// answers in its own way: word of a process that ended, and sockets whose paths are
// long. The files for darwin and Linux differ here and nowhere else in the agent.
package hostos

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// commandTimeout bounds each command; all of them answer at once on a sane host.
const commandTimeout = 10 * time.Second

// Runner runs one command and returns what it printed, also where it failed.
type Runner interface {
	Run(ctx context.Context, name string, args ...string) (string, error)
}

// Commands runs the host's own commands, found by PATH.
type Commands struct{}

// Run executes name. The error has the command's name, not its output.
func (Commands) Run(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		err = fmt.Errorf("running %s: %w", strings.Join(append([]string{name}, args...), " "), err)
	}
	return string(out), err
}
