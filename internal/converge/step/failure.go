package step

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// failure is an error that knows what should happen next.
type failure struct {
	class document.Class
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Fail returns an error of the class.
func Fail(class document.Class, format string, args ...any) error {
	return &failure{class: class, err: fmt.Errorf(format, args...)}
}

// ClassOf is Retry for what nobody classified: steps are safe to repeat.
func ClassOf(err error) document.Class {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.class
	}
	if errors.Is(err, syscall.ENOSPC) {
		return document.Reinstall
	}
	return document.Retry
}

// Failed is the report of a step that failed.
func Failed(name string, err error) document.StepReport {
	return document.StepReport{
		Name: name, Outcome: document.Failed, Class: ClassOf(err), Detail: err.Error(),
	}
}
