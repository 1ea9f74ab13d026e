package mac

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// ScriptError is a script that ended with another code than 0.
type ScriptError struct {
	RC     int
	Output string
}

func (e *ScriptError) Error() string {
	return fmt.Sprintf("the script ended with %d: %s", e.RC, strings.TrimSpace(e.Output))
}

// AsRoot runs a script in the Mac's /bin/sh as root, as somebody would who sits
// at the machine, whatever SSH and sudo allow. It returns what was printed, on
// either channel. Errors are ErrOff and *ScriptError.
func (m *Mac) AsRoot(ctx context.Context, script string) (string, error) {
	run := m.current()
	if run == nil {
		return "", ErrOff
	}
	outcome, err := run.ask(ctx, wire.Order{Script: script})
	switch {
	case err != nil:
		return "", err
	case outcome.Kind != wire.EventDone:
		return "", ErrOff
	case outcome.Text != "":
		return "", errors.New(outcome.Text)
	case outcome.RC != 0:
		return outcome.Output, &ScriptError{RC: outcome.RC, Output: outcome.Output}
	}
	return outcome.Output, nil
}
