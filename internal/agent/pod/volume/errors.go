package volume

import (
	"errors"
	"fmt"

	"github.com/macfleet/macfleet/internal/agent/pod/env"
)

// MountError says why a volume cannot be given to a Pod, as it, the objects it
// names or the host are now. Its text holds no contents.
type MountError struct {
	// Reason for the waiting state of the container.
	Reason string
	// Message for people, one line.
	Message string
	// Err is what lies behind it, if anything does.
	Err error
}

func (e *MountError) Error() string { return e.Message }

// Unwrap returns what lies behind it.
func (e *MountError) Unwrap() error { return e.Err }

// EventReason is a kubelet's for volumes that are not there.
func (*MountError) EventReason() string { return "FailedMount" }

func wrong(format string, args ...any) *MountError {
	err := fmt.Errorf(format, args...)
	return &MountError{Reason: env.ReasonConfig, Message: err.Error(), Err: errors.Unwrap(err)}
}

// of says which volume an error is about.
func of(volume string, err error) error {
	return wrong("volume %s: %w", volume, err)
}
