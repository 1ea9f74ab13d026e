package step

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

// Dir is a folder as it should be.
type Dir struct {
	Path string
	Attr macos.Attr
	// Clean: root works in it by name, so that what is in it is worth keeping only
	// if nobody else could put it there.
	Clean bool
}

// DirsDiffer says how the folders differ.
func (e *Env) DirsDiffer(ctx context.Context, dirs []Dir) ([]string, error) {
	var all []string
	for _, d := range dirs {
		differs, err := e.dirDiffers(ctx, d)
		if err != nil {
			return nil, err
		}
		if differs != "" {
			all = append(all, differs)
		}
	}
	return all, nil
}

func (e *Env) dirDiffers(ctx context.Context, d Dir) (string, error) {
	info, err := e.Mac.Files.Stat(ctx, d.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.Path + " is missing", nil
	case err != nil:
		return "", fmt.Errorf("looking at %s: %w", d.Path, err)
	case !info.Dir:
		return "", Fail(document.Human, "%s is not a folder", d.Path)
	case info.Attr != d.Attr:
		return fmt.Sprintf("%s is %s, not %s", d.Path, info.Attr, d.Attr), nil
	}
	return "", nil
}

// MakeDirs makes the folders, or repairs who may do what in them. What is no folder is
// left alone: a link would lead elsewhere.
func (e *Env) MakeDirs(ctx context.Context, dirs []Dir) error {
	for _, d := range dirs {
		differs, err := e.dirDiffers(ctx, d)
		if err != nil {
			return err
		}
		if differs == "" {
			continue
		}
		if d.Clean {
			if err := e.Remove(d.Path); err != nil {
				return err
			}
		}
		if err := e.Mac.Files.MakeDir(ctx, d.Path, d.Attr); err != nil {
			return fmt.Errorf("making %s: %w", d.Path, err)
		}
	}
	return nil
}
