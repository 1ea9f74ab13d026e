package converge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	poll = 250 * time.Millisecond
	// leaveTimeout is how long a label may take to go after bootout: what launchd
	// gives the process, and the settling seen in the field (3-5 s), thrice.
	leaveTimeout = exitTimeOut*time.Second + 15*time.Second
	// bootstrapTimeout: a label that is gone may still be refused for a while.
	bootstrapTimeout = 20 * time.Second
	// spawnTimeout: a job that runs at load has a process well within this.
	spawnTimeout = 2 * time.Second
	// proofTimeout covers one throttled start (10 s) on a slow, busy Mac.
	proofTimeout = 45 * time.Second
	// steadyFor is how long the new process must stay, healthy at both ends.
	steadyFor = 5 * time.Second
	// askTimeout bounds one question to the agent.
	askTimeout = 2 * time.Second
)

func (t *target) reload(ctx context.Context) error {
	if err := t.writePlist(ctx); err != nil {
		return err
	}
	if err := unload(ctx, t.Mac); err != nil {
		return err
	}
	return t.load(ctx)
}

// unload boots the agent out and waits until launchd has forgotten the label,
// which it does in its own time.
func unload(ctx context.Context, mac macos.Mac) error {
	err := mac.Launchd.Bootout(ctx, document.AgentLabel)
	if err != nil && !isAbsent(err) {
		// It may be leaving already; whether it goes is what counts.
		var refused *macos.LaunchdError
		if !errors.As(err, &refused) {
			return err
		}
	}
	return await(ctx, mac.Clock, leaveTimeout, "launchd to forget the agent", func() (bool, error) {
		_, err := mac.Launchd.Print(ctx, document.AgentLabel)
		if isAbsent(err) {
			return true, nil
		}
		return false, err
	})
}

func isAbsent(err error) bool {
	var refused *macos.LaunchdError
	return errors.As(err, &refused) && refused.Absent()
}

func (t *target) load(ctx context.Context) error {
	// A label that somebody disabled stays off across reboots until this.
	if err := t.Mac.Launchd.Enable(ctx, document.AgentLabel); err != nil {
		return err
	}
	if err := t.bootstrap(ctx); err != nil {
		return err
	}
	err := await(ctx, t.Mac.Clock, spawnTimeout, "launchd to start the agent", func() (bool, error) {
		j, _, err := t.printJob(ctx)
		return j.PID > 0, err
	})
	var late *timeoutError
	if errors.As(err, &late) {
		return t.Mac.Launchd.Kickstart(ctx, document.AgentLabel, false)
	}
	return err
}

func (t *target) bootstrap(ctx context.Context) error {
	var last error
	err := await(ctx, t.Mac.Clock, bootstrapTimeout, "launchd to take the agent", func() (bool, error) {
		last = t.Mac.Launchd.Bootstrap(ctx, document.AgentPlist)
		var refused *macos.LaunchdError
		if errors.As(last, &refused) && refused.Busy() {
			return false, nil
		}
		return last == nil, last
	})
	var late *timeoutError
	if errors.As(err, &late) {
		return fmt.Errorf("%w: %w", late, last)
	}
	return err
}

func (t *target) kick(ctx context.Context) error {
	err := t.Mac.Launchd.Kickstart(ctx, document.AgentLabel, true)
	if isAbsent(err) {
		return t.load(ctx)
	}
	return err
}

// proveAgent waits for a new process that launchd calls running and that itself
// says it is the wanted build with the wanted configuration, and then for it to
// stay. A kickstart that did nothing leaves the old process; a crash loop shows
// a new one now and then. Neither passes.
func (t *target) proveAgent(ctx context.Context, before int) error {
	pid := 0
	var wrong error
	err := await(ctx, t.Mac.Clock, proofTimeout, "the agent to come up", func() (bool, error) {
		var j macos.Job
		j, wrong = t.answering(ctx)
		if wrong == nil && j.PID == before {
			wrong = fmt.Errorf("process %d was not restarted", before)
		}
		pid = j.PID
		return wrong == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, wrong)
	}
	if err := t.steady(ctx, pid); err != nil {
		return err
	}
	return t.Mac.Files.Remove(owedFile)
}

// steady watches the process for a while.
func (t *target) steady(ctx context.Context, pid int) error {
	until := t.Mac.Clock.Now().Add(steadyFor)
	for t.Mac.Clock.Now().Before(until) {
		if err := t.Mac.Clock.Sleep(ctx, poll); err != nil {
			return err
		}
		j, _, err := t.printJob(ctx)
		if err != nil {
			return err
		}
		if j.PID != pid {
			return fmt.Errorf("the agent does not stay: process %d went (state %q, last exit %q)", pid, j.State, j.LastExit)
		}
	}
	_, err := t.answering(ctx)
	return err
}

// answering is the job when it runs and its process gives the right answer.
func (t *target) answering(ctx context.Context) (macos.Job, error) {
	j, loaded, err := t.printJob(ctx)
	if err != nil {
		return j, err
	}
	if !loaded {
		return j, errors.New("the agent is not loaded")
	}
	return j, t.healthy(ctx, j)
}

// healthy asks the agent who it is.
func (t *target) healthy(ctx context.Context, j macos.Job) error {
	if !j.Running() {
		return fmt.Errorf("the agent is not running (state %q, last exit %q)", j.State, j.LastExit)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	data, err := t.Mac.Sockets.Ask(ctx, document.HealthSocket)
	if err != nil {
		return fmt.Errorf("the agent does not answer: %w", err)
	}
	var h document.Health
	if err := json.Unmarshal(data, &h); err != nil {
		return errors.New("the agent's answer is not its health")
	}
	config, err := document.EncodeConfig(t.desired)
	if err != nil {
		return err
	}
	switch {
	case h.PID != j.PID:
		return fmt.Errorf("process %d answers, launchd runs %d", h.PID, j.PID)
	case h.Build != t.desired.Agent.SHA256:
		return fmt.Errorf("the agent is build %.64q", h.Build)
	case h.ConfigHash != document.Hash(config):
		return errors.New("the agent runs with another configuration")
	}
	return nil
}

// timeoutError says what did not happen in time.
type timeoutError struct {
	what string
	wait time.Duration
}

func (e *timeoutError) Error() string { return fmt.Sprintf("waited %s for %s", e.wait, e.what) }

// await polls until done, an error, or the end of patience.
func await(
	ctx context.Context, clock macos.Clock, patience time.Duration, what string, done func() (bool, error),
) error {
	deadline := clock.Now().Add(patience)
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if !clock.Now().Before(deadline) {
			return &timeoutError{what: what, wait: patience}
		}
		if err := clock.Sleep(ctx, poll); err != nil {
			return err
		}
	}
}
