// Package atomicfile replaces files: a reader finds the old file or the whole new one,
// also after a power cut. It is for whatever runs on a Mac and keeps files there.
package atomicfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const tempPrefix, tempSuffix = ".", ".new"

// Temp is where a new file is written before it is moved to path. The name is fixed, so
// that a writer that was cut off leaves one at most, which the next writer removes, and
// does not end in what a folder's watchers look for.
func Temp(path string) string {
	return filepath.Join(filepath.Dir(path), tempPrefix+filepath.Base(path)+tempSuffix)
}

// IsTemp reports whether Temp made that name.
func IsTemp(path string) bool {
	base := filepath.Base(path)
	return strings.HasPrefix(base, tempPrefix) && strings.HasSuffix(base, tempSuffix)
}

// ErrNameNotSynced is a Write that took effect, but a power cut may bring the old file
// back: the folder could not be synced.
var ErrNameNotSynced = errors.New("the file is replaced, but its folder is not synced")

// File is a file to replace. Two may not replace one file at the same time.
type File struct {
	Path string
	// Temp, on the same volume, is where the file is written first; empty: Temp(Path).
	Temp string
	// Finish, when set, changes the new file before it is synced: it is its writer's
	// alone until then.
	Finish func(f *os.File) error
}

// Write replaces the file, always by a new inode. It returns once the file and its name
// are on the disk.
func (f File) Write(data io.Reader) error {
	temp := f.Temp
	if temp == "" {
		temp = Temp(f.Path)
	}
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := f.create(temp, data)
	if err == nil {
		err = os.Rename(temp, f.Path)
	}
	if err != nil {
		_ = os.Remove(temp)
		return err
	}
	if err := SyncDir(filepath.Dir(f.Path)); err != nil {
		return fmt.Errorf("%w: %w", ErrNameNotSynced, err)
	}
	return nil
}

func (f File) create(temp string, data io.Reader) error {
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, data)
	if err == nil && f.Finish != nil {
		err = f.Finish(file)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// SyncDir has the names in a folder on the disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // not every file system can; the rename stands all the same
	}
	return errors.Join(err, d.Close())
}

// WriteJSON replaces a file that only its owner may read.
func WriteJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	if err := (File{Path: path}).Write(bytes.NewReader(data)); err != nil {
		return fmt.Errorf("replacing %s: %w", path, err)
	}
	return nil
}
