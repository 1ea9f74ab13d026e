package macos

import (
	"context"
	"errors"
)

// Sudo says who may do what as root.
type Sudo interface {
	// Check is a *SudoersError when visudo refuses a sudoers file.
	Check(ctx context.Context, file string) error
	// Try runs a command line as root, the way the user would with sudo and without
	// a password, and returns its exit code. SudoRefused is also what sudo itself
	// answers. sudo's own list is no help: it names what needs a password too.
	Try(ctx context.Context, user string, command ...string) (exit int, err error)
}

// SudoRefused is sudo's exit code for a command that it does not let through.
const SudoRefused = 1

// SudoersFile is the one that includes all others.
const SudoersFile = "/etc/sudoers"

// SudoersError is visudo's refusal.
type SudoersError struct{ Text string }

func (e *SudoersError) Error() string { return "visudo: " + e.Text }

// localSudo is sudo of this Mac, through its commands.
type localSudo struct{}

var _ Sudo = localSudo{}

const (
	sudoCommand   = "/usr/bin/sudo"
	visudoCommand = "/usr/sbin/visudo"
)

// Check implements Sudo.
func (localSudo) Check(ctx context.Context, file string) error {
	_, err := run(ctx, visudoCommand, "-cf", file)
	if failed, ok := errors.AsType[*commandError](err); ok {
		return &SudoersError{Text: failed.Text}
	}
	return err
}

// Try implements Sudo. Its standard input is empty.
func (localSudo) Try(ctx context.Context, user string, command ...string) (int, error) {
	args := append([]string{"-n", "-u", user, sudoCommand, "-n"}, command...)
	_, err := run(ctx, sudoCommand, args...)
	if failed, ok := errors.AsType[*commandError](err); ok {
		return failed.Code, nil
	}
	return 0, err
}
