package step

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

// Users and groups every Mac has.
const (
	Root  = "root"
	wheel = "wheel"
	// Staff is the primary group of people, and so of the console user.
	Staff = "staff"
)

// RootAttr is for what is root's.
func RootAttr(mode fs.FileMode) macos.Attr {
	return macos.Attr{Mode: mode, Owner: Root, Group: wheel}
}

// StaffAttr is for what is the user's, or what all people may read.
func StaffAttr(owner string, mode fs.FileMode) macos.Attr {
	return macos.Attr{Mode: mode, Owner: owner, Group: Staff}
}

// File is a small file as it should be.
type File struct {
	Path string
	Data []byte
	Attr macos.Attr
}

// Differs says how the file on the Mac differs from the wanted one, in words.
func (e *Env) Differs(ctx context.Context, f File) (string, error) {
	differs, err := e.AttrDiffers(ctx, f)
	if err != nil || differs != "" {
		return differs, err
	}
	data, err := Read(e.Mac.Files, f.Path)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(data, f.Data) {
		return f.Path + " has other contents", nil
	}
	return "", nil
}

// AttrDiffers says what is wrong with the file but for what is in it.
func (e *Env) AttrDiffers(ctx context.Context, f File) (string, error) {
	info, err := e.Mac.Files.Stat(ctx, f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.Path + " is missing", nil
	case err != nil:
		return "", err
	case info.Attr != f.Attr || info.Dir || info.Target != "":
		return fmt.Sprintf("%s is %s, not %s", f.Path, info.Attr, f.Attr), nil
	}
	return "", nil
}

// Differing says which of the files differ.
func (e *Env) Differing(ctx context.Context, wanted ...File) ([]string, error) {
	var all []string
	for _, f := range wanted {
		differs, err := e.Differs(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", f.Path, err)
		}
		if differs != "" {
			all = append(all, differs)
		}
	}
	return all, nil
}

// Exists reports whether there is something at path.
func (e *Env) Exists(ctx context.Context, path string) (bool, error) {
	_, err := e.Mac.Files.Stat(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", path, err)
	}
	return true, nil
}

// There says which of the files are there.
func (e *Env) There(ctx context.Context, paths ...string) ([]string, error) {
	var all []string
	for _, p := range paths {
		there, err := e.Exists(ctx, p)
		if err != nil {
			return nil, err
		}
		if there {
			all = append(all, p+" is there")
		}
	}
	return all, nil
}

// LinkTarget is where a link points, empty for anything else and for nothing.
func (e *Env) LinkTarget(ctx context.Context, name string) (string, error) {
	info, err := e.Mac.Files.Stat(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("looking at %s: %w", name, err)
	}
	return info.Target, nil
}

// Remove removes all of them, also when one cannot be.
func (e *Env) Remove(paths ...string) error {
	var errs []error
	for _, p := range paths {
		if err := e.Mac.Files.Remove(p); err != nil {
			errs = append(errs, fmt.Errorf("removing %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// Read reads a small file; what is larger than any document is not one of ours.
func Read(files macos.Files, path string) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, document.MaxSize))
}

// Write replaces the file.
func Write(ctx context.Context, files macos.Files, f File) error {
	return files.Replace(ctx, f.Path, macos.Content{Data: bytes.NewReader(f.Data), Attr: f.Attr})
}
