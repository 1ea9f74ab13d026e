package tart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// macSlots is how many macOS guests Apple's licence, and the kernel with it, lets run
// at a time on one Mac. Linux guests are not counted.
const macSlots = 2

// slot is one running macOS guest as the kernel counts it: a file flocked by `run`.
type slot struct {
	path string
	lock flocked
}

// takeSlot returns nil without an error when the limit is reached.
func (c runner) takeSlot() (*slot, error) {
	if err := os.MkdirAll(c.stateDir, 0o755); err != nil {
		return nil, fmt.Errorf("preparing the licence slots: %w", err)
	}
	for i := range macSlots {
		s := &slot{path: filepath.Join(c.stateDir, fmt.Sprintf("slot-%d", i))}
		if c.plan.ResetLeaks {
			_ = os.Remove(s.leaked()) // one that is not there needs no reset
		}
		if exists(s.leaked()) {
			continue
		}
		if err := touchFile(s.path); err != nil {
			return nil, fmt.Errorf("preparing a licence slot: %w", err)
		}
		lock, taken, err := tryFlock(s.path)
		if err != nil {
			return nil, fmt.Errorf("taking a licence slot: %w", err)
		}
		if taken {
			s.lock = lock
			return s, nil
		}
	}
	return nil, nil
}

func (s *slot) leaked() string { return s.path + ".leaked" }

// leak keeps the slot taken after its process is gone, until the state directory is
// emptied by a reboot.
func (s *slot) leak() error { return touchFile(s.leaked()) }

func touchFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// overLimit is the error of a start that the kernel refused; older versions hand on
// what the framework says.
func (c runner) overLimit(self vmDir) error {
	vms, err := c.home.locals()
	if err != nil {
		return err
	}
	var others []string
	for _, vm := range vms {
		// Looking at our own configuration would drop the lock on it.
		if vm != self && vm.holder() != 0 {
			others = append(others, vm.name())
		}
	}
	if c.plan.minor() < 31 {
		return errors.New(`Error Domain=VZErrorDomain Code=6 "The maximum supported number of active virtual machines has been reached."`)
	}
	message := "The number of VMs exceeds the system limit"
	if len(others) > 0 {
		message += " (other running VMs: " + strings.Join(others, ", ") + ")"
	}
	return runtimeError(message)
}
