package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// Note is a small JSON file, root's alone, in which a step remembers what cannot be
// seen on the Mac.
type Note[T any] struct {
	Path string
	// What it says, for errors.
	What string
	// Damaged is the error for a file that cannot be read as a T; nil: such a file
	// is as good as none, and is written again in time.
	Damaged func() error
}

// Read returns the zero value where there is no note.
func (n Note[T]) Read(files macos.Files) (T, error) {
	value, _, err := n.Find(files)
	return value, err
}

// Find also says whether there is a note.
func (n Note[T]) Find(files macos.Files) (value T, found bool, err error) {
	var none T
	data, err := Read(files, n.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, false, nil
	}
	if err != nil {
		return none, false, fmt.Errorf("reading %s: %w", n.What, err)
	}
	switch err := json.Unmarshal(data, &value); {
	case err == nil:
		return value, true, nil
	case n.Damaged != nil:
		return none, false, n.Damaged()
	}
	return none, false, nil
}

// Write replaces the note.
func (n Note[T]) Write(ctx context.Context, files macos.Files, value T) error {
	data, err := json.Marshal(value)
	if err == nil {
		err = Write(ctx, files, File{n.Path, append(data, '\n'), RootAttr(0o600)})
	}
	if err != nil {
		return fmt.Errorf("recording %s: %w", n.What, err)
	}
	return nil
}
