package launchd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// pendingRestart says that a job must be restarted or reloaded: something it reads at its
// start was changed, and it has not been seen healthy since. It outlives a run that was
// cut off.
type pendingRestart string

const (
	nothingPending pendingRestart = ""
	restartPending pendingRestart = "restart"
	// reloadPending: the job's definition changed; a restart would run the old one.
	reloadPending pendingRestart = "reload"
)

// requireRestart records what a job needs. A reload covers a restart.
func requireRestart(ctx context.Context, files macos.Files, j job, need pendingRestart) error {
	if now, err := pendingOf(files, j); err != nil || now == need || now == reloadPending {
		return err
	}
	return step.Write(ctx, files, step.File{Path: j.pendingFile, Data: []byte(need), Attr: step.RootAttr(0o600)})
}

// RequireRestarts records that every job must be restarted. It is called before the
// change that requires it is made.
func RequireRestarts(ctx context.Context, files macos.Files) error {
	for _, j := range jobs() {
		if err := requireRestart(ctx, files, j, restartPending); err != nil {
			return err
		}
	}
	return nil
}

func pendingOf(files macos.Files, j job) (pendingRestart, error) {
	data, err := step.Read(files, j.pendingFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothingPending, nil
	case err != nil:
		return nothingPending, fmt.Errorf("reading what is owed to %s: %w", j.Name, err)
	case pendingRestart(data) == restartPending:
		return restartPending, nil
	}
	// Reloading is right whatever else may be written there.
	return reloadPending, nil
}

// RequireAgentRestart does so for the agent alone.
func RequireAgentRestart(ctx context.Context, files macos.Files) error {
	return requireRestart(ctx, files, agentJob(), restartPending)
}

// clearPending forgets the pending restarts, once all jobs are healthy.
func clearPending(files macos.Files) error {
	for _, j := range jobs() {
		if err := files.Remove(j.pendingFile); err != nil {
			return err
		}
	}
	return nil
}
