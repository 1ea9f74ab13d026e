package launchd

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/builds"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/proofreboot"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// Predecessor is another system's agent, whose place ours takes.
type Predecessor interface {
	// Left says what of it still runs.
	Left(ctx context.Context) ([]string, error)
	// Stop stops it, and keeps a boot from starting it. Ours is started next.
	Stop(ctx context.Context) error
	// Restore has it back in the place of ours, also at a boot, since ours did not come
	// up. It returns why, and what became of that.
	Restore(ctx context.Context, failed error) error
}

// Jobs are the two launchd jobs of the agent.
type Jobs struct {
	*step.Env
	control     Control
	builds      builds.Store
	predecessor Predecessor
}

// New returns the jobs; predecessor may be nil.
func New(env *step.Env, predecessor Predecessor) *Jobs {
	return &Jobs{env, Control{env.Mac}, builds.Store{Env: env}, predecessor}
}

// Step makes both jobs run the wanted build with the wanted configuration, and
// proves it by asking them.
func (x *Jobs) Step() step.Step {
	s := step.Step{
		Name: "launchd",
		About: "Loads two launchd jobs, " + document.HostdLabel + " (root) and " + document.AgentLabel +
			" (the console user), and restarts them when what they read at their start changed. A restart counts once a new " +
			"process stays and itself says that it is the wanted build with the wanted configuration; a build that does not " +
			"is replaced by the last one that did.",
		Undo:  "`launchctl bootout system/LABEL` for both, then remove their files from /Library/LaunchDaemons.",
		Check: x.differ,
		Act: func(ctx context.Context) error {
			err := x.restartJobs(ctx)
			if err != nil && x.predecessor != nil {
				return x.predecessor.Restore(ctx, err)
			}
			return err
		},
		TakeBack: x.removeJobs,
	}
	s.Prove = func(ctx context.Context) error {
		if pending, err := proofreboot.Pending(ctx, x.Env); err != nil || pending {
			return err // it is the run after the reboot that proves
		}
		return s.CheckAgain(ctx)
	}
	return s
}

func (x *Jobs) differ(ctx context.Context) ([]string, error) {
	want, err := x.builds.Wanted()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, j := range jobs() {
		s, err := x.jobState(ctx, j, want)
		if err != nil {
			return nil, err
		}
		all = append(all, s.differs(j)...)
	}
	if x.predecessor != nil {
		left, err := x.predecessor.Left(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, left...)
	}
	noted, err := x.builds.NotLastGood()
	return append(all, noted...), err
}

// jobState is what decides how a job is restarted.
type jobState struct {
	plistSame bool
	loaded    bool
	pending   pendingRestart
	// restartRequested: the document names a restart that was not made yet.
	restartRequested bool
	job              macos.Job
	// unhealthy says what is wrong with the process; nil: it is healthy.
	unhealthy error
}

func (x *Jobs) jobState(ctx context.Context, j job, want builds.Identity) (jobState, error) {
	var s jobState
	wanted, err := j.plistFile(x.Desired.Host.User)
	if err != nil {
		return s, err
	}
	differs, err := x.Differs(ctx, wanted)
	if err != nil {
		return s, fmt.Errorf("looking at %s: %w", wanted.Path, err)
	}
	s.plistSame = differs == ""
	if s.pending, err = pendingOf(x.Mac.Files, j); err != nil {
		return s, err
	}
	if j.Label == document.AgentLabel {
		if s.restartRequested, err = x.restartRequested(); err != nil {
			return s, err
		}
	}
	if s.job, s.loaded, err = x.control.Print(ctx, j.Label); err != nil || !s.loaded {
		return s, err
	}
	s.job, s.unhealthy = x.askHealth(ctx, j, s.job, want)
	return s, nil
}

func (s jobState) differs(j job) []string {
	var all []string
	if !s.plistSame {
		all = append(all, j.Plist+" differs")
	}
	if !s.loaded {
		all = append(all, j.Name+" is not loaded")
	}
	if s.pending != nothingPending {
		all = append(all, j.Name+" is owed a "+string(s.pending))
	}
	if s.restartRequested {
		all = append(all, "a restart of "+j.Name+" is wished for")
	}
	if s.unhealthy != nil {
		all = append(all, s.unhealthy.Error())
	}
	return all
}

// startAction is a way to get the wanted process running.
type startAction string

const (
	// leaveRunning: it runs.
	leaveRunning startAction = "leave"
	// restartJob restarts a job that is loaded.
	restartJob startAction = "restart"
	// loadJob loads a job launchd does not know.
	loadJob startAction = "load"
	// reloadJob replaces the definition of a job. It costs a registration with
	// Background Task Management, which stops restarting jobs that register too
	// often: for a changed definition only.
	reloadJob startAction = "reload"
)

// action picks the gentlest move that makes launchd run the wanted definition.
func (s jobState) action() startAction {
	switch {
	case !s.plistSame, s.pending == reloadPending:
		return reloadJob
	case !s.loaded:
		return loadJob
	case s.pending == restartPending, s.restartRequested, s.unhealthy != nil:
		return restartJob
	}
	return leaveRunning
}

func (x *Jobs) writePlist(ctx context.Context, j job) error {
	f, err := j.plistFile(x.Desired.Host.User)
	if err != nil {
		return err
	}
	if err := requireRestart(ctx, x.Mac.Files, j, reloadPending); err != nil {
		return err
	}
	return x.Mac.Files.Replace(ctx, f.Path, macos.Content{
		Data: bytes.NewReader(f.Data), Attr: f.Attr,
		// The folder is watched: half a plist must not appear in it.
		Stage: document.StateDir,
	})
}

// removeJobs stops both jobs, the agent first, and makes launchd forget them.
func (x *Jobs) removeJobs(ctx context.Context) error {
	var errs []error
	for _, j := range []job{agentJob(), jobs()[0]} {
		_, loaded, err := x.control.Print(ctx, j.Label)
		if err == nil && loaded {
			err = x.control.Unload(ctx, j.Job)
		}
		errs = append(errs, err, x.Mac.Files.Remove(j.Plist), x.Mac.Files.Remove(j.pendingFile))
	}
	return errors.Join(append(errs, x.Remove(HostdErrorLog, document.RunDir))...)
}
