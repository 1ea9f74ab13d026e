package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

// restartWished reports whether the document names a restart that this Mac has
// not made. Which one it made last is kept on the disk, so that a push that is
// repeated after a lost connection does not restart the agent twice.
func (t *target) restartWished() (bool, error) {
	if t.desired.Restart == "" {
		return false, nil
	}
	data, err := read(t.Mac.Files, document.RestartFile)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading which restart was made last: %w", err)
	}
	return string(data) != t.desired.Restart, nil
}

// noteRestart remembers the wished restart once a new process has proved itself.
func (t *target) noteRestart(ctx context.Context) error {
	if t.desired.Restart == "" {
		return nil
	}
	attr := macos.Attr{Mode: 0o600, Owner: root, Group: wheel}
	return write(ctx, t.Mac.Files, file{document.RestartFile, []byte(t.desired.Restart), attr})
}
