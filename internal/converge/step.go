package converge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// step is one aspect of the Mac.
type step struct {
	name string
	// about says what the step changes on a Mac, and undo how a person takes it
	// back; both are for the docs and for --explain.
	about, undo string
	// check says what differs from what is wanted, in words for people, without
	// secrets. It changes nothing.
	check func(ctx context.Context) ([]string, error)
	act   func(ctx context.Context) error
	// prove says why the act did not take. Without it check must find nothing.
	prove func(ctx context.Context) error
	// takeBack undoes the step when the Mac leaves the fleet for good; nil when
	// there is nothing to undo. It is safe to repeat.
	takeBack func(ctx context.Context) error
	// note, when set, is what there is to say of a step that did not fail.
	note func() string
}

// target is a Mac and what it should be.
type target struct {
	Options
	desired document.Desired
	// report is the one being written. Steps set what concerns the whole run.
	report *document.Report
	// kickedAt is when this run restarted loginwindow; zero: it did not.
	kickedAt time.Time
	// tried is the password that macOS has to log in with in this run; empty: this
	// run looked at none. It is secret.
	tried string
}

// steps in their order. The journal comes before all that changes something, but
// for the folder that it is in: nothing of ours is on the disk, or given to a user,
// before it says which epoch and which user the disk belongs to.
func (t *target) steps() []step {
	all := []step{t.fitness(), t.journal(), t.dirs()}
	if t.takesOver() {
		all = append(all, t.takeOver())
	}
	all = append(
		all,
		t.sshd(),
		t.screenSharing(),
		t.names(),
		t.power(),
		t.updates(),
		t.session(),
		t.storage(),
		t.tart(),
		t.network(),
		t.firewall(),
		t.agent(),
		t.config(),
		t.credentials(),
		t.logs(),
		t.launchd(),
	)
	if t.takesOver() {
		all = append(all, t.formerAgent())
	}
	return append(all, t.sudo(), t.proof())
}

// failure is an error that knows what should happen next.
type failure struct {
	class document.Class
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(class document.Class, format string, args ...any) error {
	return &failure{class: class, err: fmt.Errorf(format, args...)}
}

// classOf is Retry for what nobody classified: steps are safe to repeat.
func classOf(err error) document.Class {
	var f *failure
	if errors.As(err, &f) {
		return f.class
	}
	if errors.Is(err, syscall.ENOSPC) {
		return document.Reinstall
	}
	return document.Retry
}

func failedStep(name string, err error) document.StepReport {
	return document.StepReport{
		Name: name, Outcome: document.Failed, Class: classOf(err), Detail: err.Error(),
	}
}

// run runs the steps until one fails.
func (t *target) run(ctx context.Context, steps []step) []document.StepReport {
	reports := make([]document.StepReport, 0, len(steps))
	failed := false
	for _, s := range steps {
		if failed {
			reports = append(reports, document.StepReport{Name: s.name, Outcome: document.NotRun})
			continue
		}
		started := t.Mac.Clock.Now()
		r := t.runStep(ctx, s)
		r.Millis = t.Mac.Clock.Now().Sub(started).Milliseconds()
		failed = r.Outcome == document.Failed
		reports = append(reports, r)
	}
	return reports
}

func (t *target) runStep(ctx context.Context, s step) document.StepReport {
	differs, err := s.check(ctx)
	switch {
	case err != nil:
		return failedStep(s.name, err)
	case len(differs) == 0:
		return document.StepReport{Name: s.name, Outcome: document.Unchanged, Detail: s.said()}
	case t.Plan:
		return document.StepReport{Name: s.name, Outcome: document.Planned, Detail: strings.Join(differs, "; ")}
	}
	if err := s.act(ctx); err != nil {
		return failedStep(s.name, err)
	}
	if err := s.proof(ctx); err != nil {
		return failedStep(s.name, err)
	}
	return document.StepReport{Name: s.name, Outcome: document.Changed, Detail: s.said()}
}

func (s step) said() string {
	if s.note == nil {
		return ""
	}
	return s.note()
}

func (s step) proof(ctx context.Context) error {
	if s.prove != nil {
		return s.prove(ctx)
	}
	differs, err := s.check(ctx)
	if err != nil {
		return fmt.Errorf("looking again: %w", err)
	}
	if len(differs) > 0 {
		return fmt.Errorf("it did not take: %s", strings.Join(differs, "; "))
	}
	return nil
}
