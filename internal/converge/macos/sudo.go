package macos

import (
	"context"
	"errors"
)

// Sudo says who may do what as root.
type Sudo interface {
	// Check is a *SudoersError when visudo refuses a sudoers file, or one that it
	// includes.
	Check(ctx context.Context, file string) error
	// Allowed reports whether the user may run exactly this command line as root
	// without giving a password.
	Allowed(ctx context.Context, user string, command ...string) (bool, error)
}

// SudoersFile is the file that includes all others.
const SudoersFile = "/etc/sudoers"

// SudoersError is visudo's refusal.
type SudoersError struct{ Text string }

func (e *SudoersError) Error() string { return "visudo: " + e.Text }

// SudoCommand is sudo of this Mac, through its commands.
type SudoCommand struct{}

var _ Sudo = SudoCommand{}

const (
	sudoCommand   = "/usr/bin/sudo"
	visudoCommand = "/usr/sbin/visudo"
)

// Check implements Sudo.
func (SudoCommand) Check(ctx context.Context, file string) error {
	_, err := run(ctx, visudoCommand, "-cf", file)
	var failed *commandError
	if errors.As(err, &failed) {
		return &SudoersError{Text: failed.Text}
	}
	return err
}

// Allowed implements Sudo. It asks as that user would: what root is told about
// others leaves out whether they would be asked for a password.
func (SudoCommand) Allowed(ctx context.Context, user string, command ...string) (bool, error) {
	args := append([]string{"-n", "-u", user, sudoCommand, "-n", "-l"}, command...)
	_, err := run(ctx, sudoCommand, args...)
	var failed *commandError
	if errors.As(err, &failed) {
		return false, nil
	}
	return err == nil, err
}
