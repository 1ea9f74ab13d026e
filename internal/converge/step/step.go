// Package step is what the steps of converge have in common: what a step is and how
// it runs, the Mac and the document it is given, failures that say what should happen
// next, small files and notes, and waiting. It knows no step.
package step

import (
	"context"
	"fmt"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

// Step is one aspect of the Mac.
type Step struct {
	Name string
	// About says what the step changes on a Mac, and Undo how a person takes it
	// back; both are for the docs and for --explain.
	About, Undo string
	// Check says what differs from what is wanted, in words for people, without
	// secrets. It changes nothing.
	Check func(ctx context.Context) ([]string, error)
	Act   func(ctx context.Context) error
	// Prove says why the act did not take. Without it Check must find nothing.
	Prove func(ctx context.Context) error
	// TakeBack undoes the step when the Mac leaves the fleet for good; nil when
	// there is nothing to undo. It is safe to repeat.
	TakeBack func(ctx context.Context) error
	// Note, when set, is what there is to say of a step that did not fail.
	Note func() string
}

// Env is what every step is made of: a Mac, what it should be, and how to run.
type Env struct {
	Mac     macos.Mac
	Desired document.Desired
	// Report is the one being written. Steps set what concerns the whole run.
	Report *document.Report
	// Plan looks and changes nothing.
	Plan bool
	// Alone: the step that runs is the only one of its run.
	Alone bool
	// TakeOver: what the first system installed is replaced in this run.
	TakeOver bool
}

// Run runs the steps until one fails.
func (e *Env) Run(ctx context.Context, steps []Step) []document.StepReport {
	reports := make([]document.StepReport, 0, len(steps))
	failed := false
	for _, s := range steps {
		if failed {
			reports = append(reports, document.StepReport{Name: s.Name, Outcome: document.NotRun})
			continue
		}
		r := e.RunOne(ctx, s)
		failed = r.Outcome == document.Failed
		reports = append(reports, r)
	}
	return reports
}

// RunOne runs one step.
func (e *Env) RunOne(ctx context.Context, s Step) document.StepReport {
	return e.timed(func() document.StepReport { return e.run(ctx, s) })
}

// Revert takes one step back.
func (e *Env) Revert(ctx context.Context, s Step) document.StepReport {
	return e.timed(func() document.StepReport {
		if err := s.TakeBack(ctx); err != nil {
			return Failed(s.Name, err)
		}
		return document.StepReport{Name: s.Name, Outcome: document.Changed}
	})
}

func (e *Env) timed(run func() document.StepReport) document.StepReport {
	started := e.Mac.Clock.Now()
	r := run()
	r.Millis = e.Mac.Clock.Now().Sub(started).Milliseconds()
	return r
}

func (e *Env) run(ctx context.Context, s Step) document.StepReport {
	differs, err := s.Check(ctx)
	switch {
	case err != nil:
		return Failed(s.Name, err)
	case len(differs) == 0:
		return document.StepReport{Name: s.Name, Outcome: document.Unchanged, Detail: s.detail()}
	case e.Plan:
		return document.StepReport{Name: s.Name, Outcome: document.Planned, Detail: strings.Join(differs, "; ")}
	}
	if err := s.Act(ctx); err != nil {
		return Failed(s.Name, err)
	}
	if err := s.verify(ctx); err != nil {
		return Failed(s.Name, err)
	}
	return document.StepReport{Name: s.Name, Outcome: document.Changed, Detail: s.detail()}
}

func (s Step) detail() string {
	if s.Note == nil {
		return ""
	}
	return s.Note()
}

func (s Step) verify(ctx context.Context) error {
	if s.Prove != nil {
		return s.Prove(ctx)
	}
	return s.CheckAgain(ctx)
}

// CheckAgain fails while the check finds something.
func (s Step) CheckAgain(ctx context.Context) error {
	differs, err := s.Check(ctx)
	if err != nil {
		return fmt.Errorf("looking again: %w", err)
	}
	if len(differs) > 0 {
		return fmt.Errorf("it did not take: %s", strings.Join(differs, "; "))
	}
	return nil
}

// Unproved is the Prove of a step whose act has proved itself.
func Unproved(context.Context) error { return nil }

// NoGuests fails while a guest runs that what follows would disturb.
func (e *Env) NoGuests(ctx context.Context, why string) error {
	running, err := e.Mac.Guests.Running(ctx)
	if err != nil {
		return err
	}
	if running > 0 {
		return Fail(document.Wait, "waits until no guest runs: %d do, and %s", running, why)
	}
	return nil
}

// BootSession identifies this boot of the Mac.
func BootSession(ctx context.Context, mac macos.Mac) (string, error) {
	boot, err := mac.Host.BootSession(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the boot session: %w", err)
	}
	return boot, nil
}

// RequireUnlockedDisk refuses a disk that is locked until somebody types a password.
func (e *Env) RequireUnlockedDisk(ctx context.Context) error {
	on, err := e.Mac.System.FileVault(ctx)
	if err != nil {
		return fmt.Errorf("asking for FileVault: %w", err)
	}
	if on {
		return Fail(document.Human, "FileVault is on, or comes with the next login: nobody is logged in after a boot then, and no guest starts. Turn it off with `sudo fdesetup disable`, remove an MDM profile that asks for it, or reinstall the Mac")
	}
	return nil
}
