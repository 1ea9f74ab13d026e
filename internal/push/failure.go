package push

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// Failure is why a step of a bootstrap did not work, and what it asks for.
type Failure struct {
	Step  string
	Class document.Class
	// Reason of the condition; empty means BootstrapFailed.
	Reason string
	// RolledBack: the Mac runs its former build again, since it did not do with this one.
	RolledBack bool
	Err        error
}

// Error says which step failed and why.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %v", f.Step, f.Err) }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// AsFailure gives every error a step and a class; what nobody classified is
// tried again.
func AsFailure(step string, err error) *Failure {
	if failure, ok := errors.AsType[*Failure](err); ok {
		return failure
	}
	return &Failure{Step: step, Class: document.Retry, Err: err}
}

// notRecorded is the failure of a step whose record the API server did not take, or did
// not show. No other Mac would fare better, so it is waited for and counts against none.
// What has a class already keeps it.
func notRecorded(step string, err error) error {
	if err == nil {
		return nil
	}
	if failure, ok := errors.AsType[*Failure](err); ok {
		return failure
	}
	return &Failure{Step: step, Class: document.Wait, Err: fmt.Errorf("%w; this says nothing of the Mac: look at the API server, at the manager's rights and at admission webhooks", err)}
}

// SaysNothingOfRevision tells what says nothing about a revision: something that is
// waited for, or a Mac that was not reached or not let in. The steps on the Mac itself
// have names of their own.
func (f *Failure) SaysNothingOfRevision() bool {
	if f.Class == document.Wait {
		return true
	}
	return f.Step != StepConverge && f.Step != StepReboot && slices.Contains(Steps(), f.Step)
}

// IsTransient tells failures that pass by themselves, as of the network or of who
// serves a download, from those that the revision or the Mac is to blame for.
func (f *Failure) IsTransient() bool { return f.Class == document.Retry && !f.RolledBack }

// Line is the cause in one line.
func (f *Failure) Line() string { return strings.ReplaceAll(f.Err.Error(), "\n", " ") }
