package launchd

import (
	"context"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/builds"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

// health is the job when it runs and its process gives the right answer.
func (x *Jobs) health(ctx context.Context, j job, want builds.Identity) (macos.Job, error) {
	printed, loaded, err := x.control.Print(ctx, j.Label)
	if err != nil {
		return printed, err
	}
	if !loaded {
		return printed, fmt.Errorf("%s is not loaded", j.Name)
	}
	return x.askHealth(ctx, j, printed, want)
}

// askHealth asks the process of a job who it is. Where launchd's words are of an
// unknown shape, the process itself says which one it is.
func (x *Jobs) askHealth(ctx context.Context, j job, printed macos.Job, want builds.Identity) (macos.Job, error) {
	if !printed.Unknown() && !printed.Running() {
		return printed, fmt.Errorf("%s is not running (state %q, last exit %q)", j.Name, printed.State, printed.LastExit)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := x.Mac.Sockets.Ask(ctx, j.socket, j.request)
	if err != nil {
		return printed, fmt.Errorf("%s does not answer: %w", j.Name, err)
	}
	h, err := j.health(answer)
	if err != nil {
		return printed, fmt.Errorf("%s: %w", j.Name, err)
	}
	if printed.Unknown() {
		printed.PID = h.PID
	}
	return printed, mismatch(want, j, printed, h)
}

func mismatch(want builds.Identity, j job, printed macos.Job, h document.Health) error {
	switch {
	case h.PID != printed.PID:
		return fmt.Errorf("process %d answers for %s, launchd runs %d", h.PID, j.Name, printed.PID)
	case h.Build != want.Build:
		return fmt.Errorf("%s is build %.64q", j.Name, h.Build)
	case h.ConfigHash != want.ConfigSHA256:
		return fmt.Errorf("%s runs with another configuration", j.Name)
	}
	return nil
}
