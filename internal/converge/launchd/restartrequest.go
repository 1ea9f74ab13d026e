package launchd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// restartRequested reports whether the document names a restart that this Mac has
// not made. Which one it made last is kept on the disk, so that a push that is
// repeated after a lost connection does not restart the agent twice.
func (x *Jobs) restartRequested() (bool, error) {
	if x.Desired.Restart == "" {
		return false, nil
	}
	data, err := step.Read(x.Mac.Files, document.RestartFile)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading which restart was made last: %w", err)
	}
	return string(data) != x.Desired.Restart, nil
}

// recordRestart remembers Desired.Restart once a new process is healthy.
func (x *Jobs) recordRestart(ctx context.Context) error {
	if x.Desired.Restart == "" {
		return nil
	}
	return step.Write(ctx, x.Mac.Files, step.File{Path: document.RestartFile, Data: []byte(x.Desired.Restart), Attr: step.RootAttr(0o600)})
}
