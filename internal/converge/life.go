package converge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	// proofTimeout covers one throttled start (10 s) on a slow, busy Mac.
	proofTimeout = 45 * time.Second
	// steadyFor is how long the new processes must stay. It is longer than
	// launchd's throttle: within it, a program that ends soon after its start has
	// ended, and has been seen missing or replaced.
	steadyFor  = (throttleInterval + 2) * time.Second
	steadyPoll = time.Second
	// askTimeout bounds one question to a process.
	askTimeout = 2 * time.Second
)

// unprovedError says that a job does not run as it should.
type unprovedError struct {
	job string
	err error
	// started: a new process was seen, so that the build is to blame and not
	// launchd, which did not start it.
	started bool
}

func (e *unprovedError) Error() string { return e.err.Error() }
func (e *unprovedError) Unwrap() error { return e.err }

// birth is a process that came up.
type birth struct {
	job       job
	pid, runs int
}

// bringUp makes every job run with that identity and proves it. Nothing that runs
// so already is touched.
func (t *target) bringUp(ctx context.Context, want identity) error {
	born, err := t.start(ctx, want)
	if err != nil {
		return err
	}
	return t.steady(ctx, born, want)
}

// start makes every job run with that identity, and returns the new processes.
func (t *target) start(ctx context.Context, want identity) ([]birth, error) {
	var born []birth
	for _, j := range jobs() {
		s, err := t.jobState(ctx, j, want)
		if err != nil {
			return nil, err
		}
		m := s.decide()
		if m == rest {
			continue
		}
		if err := t.move(ctx, j, m); err != nil {
			return nil, fmt.Errorf("%s: %w", j.name, err)
		}
		before := s.job
		if m != kick {
			// launchd forgot the old process, and counts from one again.
			before = macos.Job{}
		}
		b, err := t.awaitUp(ctx, j, want, before)
		if err != nil {
			return nil, err
		}
		born = append(born, b)
	}
	return born, nil
}

// awaitUp waits for a new process that launchd calls running and that itself says
// it is the wanted build with the wanted configuration. A kickstart that did
// nothing leaves the old process; a crash loop shows a new one now and then.
// Neither passes.
func (t *target) awaitUp(ctx context.Context, j job, want identity, before macos.Job) (birth, error) {
	var (
		now     macos.Job
		wrong   error
		started bool
		kicked  bool
	)
	err := await(ctx, t.Mac.Clock, proofTimeout, j.name+" to come up", func() (bool, error) {
		now, wrong = t.answering(ctx, j, want)
		if wrong == nil && now.PID == before.PID {
			wrong = fmt.Errorf("process %d of %s was not restarted", before.PID, j.name)
		}
		started = started || now.PID > 0 && now.PID != before.PID || now.Runs > before.Runs
		if !kicked && now.State == "not running" {
			// It ended and is not started again; that may be for good.
			kicked = true
			return false, t.Mac.Launchd.Kickstart(ctx, j.label, false)
		}
		return wrong == nil, nil
	})
	if err == nil {
		return birth{j, now.PID, now.Runs}, nil
	}
	var late *timeoutError
	if !errors.As(err, &late) {
		return birth{}, err
	}
	return birth{}, &unprovedError{
		job: j.name, started: started, err: fmt.Errorf("%w: %w%s", err, wrong, t.hint(ctx, j, now)),
	}
}

// hint says what may be the matter and what to do.
func (t *target) hint(ctx context.Context, j job, now macos.Job) string {
	off, err := t.Mac.Launchd.Disabled(ctx, j.label)
	switch {
	case err == nil && off:
		return "; it is disabled in launchd's overrides: run `launchctl enable system/" + j.label + "` as root"
	case now.BadSignature():
		return "; macOS killed it for its code signature"
	case now.State == "not running":
		return "; launchd does not start it again, Background Task Management may hold it back: " +
			"look at `sfltool dumpbtm`; a reboot clears it"
	case now.PID == 0 && now.LastExit != "":
		return "; it ends soon after its start: its error log says why"
	case now.PID == 0 && !now.Unknown():
		return "; launchd puts its start off: when that lasts, reboot the Mac"
	}
	return ""
}

// steady watches the processes for a while, all at once.
func (t *target) steady(ctx context.Context, born []birth, want identity) error {
	if len(born) == 0 {
		return nil
	}
	until := t.Mac.Clock.Now().Add(steadyFor)
	for t.Mac.Clock.Now().Before(until) {
		if err := t.Mac.Clock.Sleep(ctx, steadyPoll); err != nil {
			return err
		}
		for _, b := range born {
			if err := t.stays(ctx, b); err != nil {
				return err
			}
		}
	}
	for _, b := range born {
		if now, err := t.answering(ctx, b.job, want); err != nil || now.PID != b.pid {
			return &unprovedError{b.job.name, errors.Join(err, fmt.Errorf("%s does not stay", b.job.name)), true}
		}
	}
	return nil
}

func (t *target) stays(ctx context.Context, b birth) error {
	now, _, err := t.printJob(ctx, b.job)
	if err != nil {
		return err
	}
	if now.Unknown() || now.PID == b.pid && now.Runs == b.runs {
		return nil
	}
	err = fmt.Errorf("%s does not stay: process %d went (state %q, last exit %q)%s",
		b.job.name, b.pid, now.State, now.LastExit, t.hint(ctx, b.job, now))
	return &unprovedError{b.job.name, err, true}
}

// answering is the job when it runs and its process gives the right answer.
func (t *target) answering(ctx context.Context, j job, want identity) (macos.Job, error) {
	printed, loaded, err := t.printJob(ctx, j)
	if err != nil {
		return printed, err
	}
	if !loaded {
		return printed, fmt.Errorf("%s is not loaded", j.name)
	}
	return t.answers(ctx, j, printed, want)
}

// answers asks the process of a job who it is. Where launchd's words are of an
// unknown shape, the process itself says which one it is.
func (t *target) answers(ctx context.Context, j job, printed macos.Job, want identity) (macos.Job, error) {
	if !printed.Unknown() && !printed.Running() {
		return printed, fmt.Errorf("%s is not running (state %q, last exit %q)", j.name, printed.State, printed.LastExit)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := t.Mac.Sockets.Ask(ctx, j.socket, j.request)
	if err != nil {
		return printed, fmt.Errorf("%s does not answer: %w", j.name, err)
	}
	h, err := j.health(answer)
	if err != nil {
		return printed, fmt.Errorf("%s: %w", j.name, err)
	}
	if printed.Unknown() {
		printed.PID = h.PID
	}
	return printed, want.mismatch(j, printed, h)
}

func (want identity) mismatch(j job, printed macos.Job, h document.Health) error {
	switch {
	case h.PID != printed.PID:
		return fmt.Errorf("process %d answers for %s, launchd runs %d", h.PID, j.name, printed.PID)
	case h.Build != want.build:
		return fmt.Errorf("%s is build %.64q", j.name, h.Build)
	case h.ConfigHash != want.configHash:
		return fmt.Errorf("%s runs with another configuration", j.name)
	}
	return nil
}
