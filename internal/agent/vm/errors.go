package vm

import (
	"errors"
	"fmt"
)

// The errors of a Driver, to be matched with errors.Is. Any other error is a
// failure of the tool that may pass.
var (
	// ErrExists: a machine of that name is there already.
	ErrExists = errors.New("the machine exists already")
	// ErrNotFound: no machine or image of that name on this host.
	ErrNotFound = errors.New("not found on this host")
	// ErrRunning: the machine runs.
	ErrRunning = errors.New("the machine is running")
	// ErrImageNotFound: the registry has no such image.
	ErrImageNotFound = errors.New("no such image in the registry")
	// ErrAuth: the registry refuses us.
	ErrAuth = errors.New("the registry refuses access")
	// ErrNoSpace: the volume is full.
	ErrNoSpace = errors.New("no space left")
	// ErrUnusable: the tool is missing or cannot be executed.
	ErrUnusable = errors.New("the virtual machine tool cannot be used")
	// ErrInvalidReference: the image name is not one.
	ErrInvalidReference = errors.New("invalid image reference")
)

// ShareError says that a directory cannot be shared under its path (see Shareable).
type ShareError struct{ Share Share }

func (e *ShareError) Error() string {
	return fmt.Sprintf("directory %q cannot be shared with a VM: its path is not absolute, or has a colon, a comma or a control character", e.Share.Path)
}
