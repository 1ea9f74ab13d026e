package converge

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
	root  = "root"
	wheel = "wheel"
	// staff is the primary group of people, and so of the console user.
	staff = "staff"
)

var rootOnly = macos.Attr{Mode: 0o700, Owner: root, Group: wheel}

// file is a small file as it should be.
type file struct {
	path string
	data []byte
	attr macos.Attr
}

// differs says how the file on the Mac differs from the wanted one, in words.
func (t *target) differs(ctx context.Context, f file) (string, error) {
	info, err := t.Mac.Files.Stat(ctx, f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.path + " is missing", nil
	}
	if err != nil {
		return "", err
	}
	if info.Attr != f.attr || info.Dir || info.Target != "" {
		return fmt.Sprintf("%s is %s, not %s", f.path, info.Attr, f.attr), nil
	}
	data, err := read(t.Mac.Files, f.path)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(data, f.data) {
		return f.path + " has other contents", nil
	}
	return "", nil
}

func (t *target) exists(ctx context.Context, path string) (bool, error) {
	_, err := t.Mac.Files.Stat(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// differing says which of the files differ.
func (t *target) differing(ctx context.Context, wanted ...file) ([]string, error) {
	var all []string
	for _, f := range wanted {
		differs, err := t.differs(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", f.path, err)
		}
		if differs != "" {
			all = append(all, differs)
		}
	}
	return all, nil
}

// read reads a small file; what is larger than any document is not one of ours.
func read(files macos.Files, path string) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, document.MaxSize))
}

func write(ctx context.Context, files macos.Files, f file) error {
	return files.Replace(ctx, f.path, macos.Content{Data: bytes.NewReader(f.data), Attr: f.attr})
}
