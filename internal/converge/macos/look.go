package macos

import (
	"context"
	"errors"
)

// Commands runs commands that only look, for what no other interface asks.
type Commands interface {
	// Output is what the command at path prints. A command that ends with another
	// code than 0 is an error; what it printed is returned all the same.
	Output(ctx context.Context, path string, args ...string) (string, error)
}

// LocalCommands runs the commands of this Mac.
type LocalCommands struct{}

var _ Commands = LocalCommands{}

// Output implements Commands.
func (LocalCommands) Output(ctx context.Context, path string, args ...string) (string, error) {
	return run(ctx, path, args...)
}

// Refused reports whether err is a command that ran and said no, and not one that
// could not run or did not end.
func Refused(err error) bool {
	var refused *commandError
	return errors.As(err, &refused) && refused.Code > 0
}
