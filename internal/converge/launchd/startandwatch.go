package launchd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/converge/builds"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const (
	// healthTimeout covers one throttled start (10 s) on a slow, busy Mac.
	healthTimeout = 45 * time.Second
	// watchFor is how long the new processes must stay. It is longer than
	// launchd's throttle: within it, a program that ends soon after its start has
	// ended, and has been seen missing or replaced.
	watchFor  = (throttleInterval + 2) * time.Second
	watchPoll = time.Second
	// askTimeout bounds one question to a process. One that is late on a busy Mac
	// must not be restarted for it.
	askTimeout = 10 * time.Second
)

// startJob gets the wanted process started, not yet proved.
func (x *Jobs) startJob(ctx context.Context, j job, m startAction) error {
	switch m {
	case leaveRunning:
		return nil
	case reloadJob:
		return x.reload(ctx, j)
	case loadJob:
		return x.control.Load(ctx, j.Job)
	default:
		return x.control.restart(ctx, j.Job)
	}
}

func (x *Jobs) reload(ctx context.Context, j job) error {
	if err := x.writePlist(ctx, j); err != nil {
		return err
	}
	if err := x.control.Unload(ctx, j.Job); err != nil {
		return err
	}
	// The old definition is gone for good: a run that is cut off from here on needs
	// no second registration, only a restart.
	if err := step.Write(ctx, x.Mac.Files, step.File{Path: j.pendingFile, Data: []byte(restartPending), Attr: step.RootAttr(0o600)}); err != nil {
		return err
	}
	return x.control.Load(ctx, j.Job)
}

// unhealthyError says that a job does not run as it should.
type unhealthyError struct {
	job string
	err error
	// sawProcess: a new process was seen, so that the build has failed and not
	// launchd, which did not start it.
	sawProcess bool
}

func (e *unhealthyError) Error() string { return e.err.Error() }
func (e *unhealthyError) Unwrap() error { return e.err }

// startedProcess is a process that this run has started.
type startedProcess struct {
	job       job
	pid, runs int
}

// startAndWatch makes every job run with that identity and proves it. Nothing that runs
// so already is touched.
func (x *Jobs) startAndWatch(ctx context.Context, want builds.Identity) error {
	born, err := x.startJobs(ctx, want)
	if err != nil {
		return err
	}
	return x.watchStarted(ctx, born, want)
}

// startJobs makes every job run with that identity, and returns the new processes.
func (x *Jobs) startJobs(ctx context.Context, want builds.Identity) ([]startedProcess, error) {
	var born []startedProcess
	for _, j := range jobs() {
		if j.Label == document.AgentLabel && x.predecessor != nil {
			if err := x.predecessor.Stop(ctx); err != nil {
				return nil, err
			}
		}
		s, err := x.jobState(ctx, j, want)
		if err != nil {
			return nil, err
		}
		m := s.action()
		if m == leaveRunning {
			continue
		}
		if err := x.startJob(ctx, j, m); err != nil {
			return nil, fmt.Errorf("%s: %w", j.Name, err)
		}
		before := s.job
		if m != restartJob {
			// launchd forgot the old process, and counts from one again.
			before = macos.Job{}
		}
		b, err := x.awaitHealthy(ctx, j, want, before)
		if err != nil {
			return nil, err
		}
		born = append(born, b)
	}
	return born, nil
}

// awaitHealthy waits for a new process that launchd calls running and that itself says
// it is the wanted build with the wanted configuration. A kickstart that did
// nothing leaves the old process; a crash loop shows a new one now and then.
// Neither passes.
func (x *Jobs) awaitHealthy(ctx context.Context, j job, want builds.Identity, before macos.Job) (startedProcess, error) {
	var (
		now         macos.Job
		wrong       error
		started     bool
		kickstarted bool
	)
	err := step.Await(ctx, x.Mac.Clock, healthTimeout, j.Name+" to come up", func() (bool, error) {
		now, wrong = x.health(ctx, j, want)
		if wrong == nil && now.PID == before.PID {
			wrong = fmt.Errorf("process %d of %s was not restarted", before.PID, j.Name)
		}
		started = started || now.PID > 0 && now.PID != before.PID || now.Runs > before.Runs
		if !kickstarted && now.State == "not running" {
			// It ended and is not started again; that may be for good.
			kickstarted = true
			return false, x.Mac.Launchd.Kickstart(ctx, j.Label, false)
		}
		return wrong == nil, nil
	})
	if err == nil {
		return startedProcess{j, now.PID, now.Runs}, nil
	}
	var late *step.TimeoutError
	if !errors.As(err, &late) {
		return startedProcess{}, err
	}
	return startedProcess{}, &unhealthyError{
		job: j.Name, sawProcess: started, err: fmt.Errorf("%w: %w%s", err, wrong, x.hint(ctx, j, now)),
	}
}

// hint says what may be the matter and what to do.
func (x *Jobs) hint(ctx context.Context, j job, now macos.Job) string {
	off, err := x.Mac.Launchd.Disabled(ctx, j.Label)
	switch {
	case err == nil && off:
		return "; it is disabled in launchd's overrides: run `launchctl enable system/" + j.Label + "` as root"
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

// watchStarted watches the processes for a while, all at once.
func (x *Jobs) watchStarted(ctx context.Context, born []startedProcess, want builds.Identity) error {
	if len(born) == 0 {
		return nil
	}
	until := x.Mac.Clock.Now().Add(watchFor)
	for x.Mac.Clock.Now().Before(until) {
		if err := x.Mac.Clock.Sleep(ctx, watchPoll); err != nil {
			return err
		}
		for _, b := range born {
			if err := x.stillRuns(ctx, b); err != nil {
				return err
			}
		}
	}
	for _, b := range born {
		if now, err := x.health(ctx, b.job, want); err != nil || now.PID != b.pid {
			return &unhealthyError{b.job.Name, errors.Join(err, fmt.Errorf("%s does not stay", b.job.Name)), true}
		}
	}
	return nil
}

func (x *Jobs) stillRuns(ctx context.Context, b startedProcess) error {
	now, _, err := x.control.Print(ctx, b.job.Label)
	if err != nil {
		return err
	}
	if now.Unknown() || now.PID == b.pid && now.Runs == b.runs {
		return nil
	}
	err = fmt.Errorf("%s does not stay: process %d went (state %q, last exit %q)%s",
		b.job.Name, b.pid, now.State, now.LastExit, x.hint(ctx, b.job, now))
	return &unhealthyError{b.job.Name, err, true}
}
