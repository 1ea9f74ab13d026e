package macos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/internal/atomicfile"
	"github.com/macfleet/macfleet/internal/filetree"
)

// disk is the file system of this Mac.
type disk struct{}

var _ Files = disk{}

const (
	statCommand  = "/usr/bin/stat"
	chownCommand = "/usr/sbin/chown"
)

// Stat implements Files.
func (disk) Stat(ctx context.Context, path string) (Info, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return Info{}, err
	}
	out, err := run(ctx, statCommand, "-f", "%Su:%Sg", path)
	if err != nil {
		return Info{}, fmt.Errorf("reading the owner of %s: %w", path, err)
	}
	owner, group, found := strings.Cut(strings.TrimSpace(out), ":")
	if !found {
		return Info{}, fmt.Errorf("reading the owner of %s: stat says %q", path, firstLine(out))
	}
	info := Info{Attr: Attr{Mode: fi.Mode().Perm(), Owner: owner, Group: group}, Dir: fi.IsDir()}
	if fi.Mode()&fs.ModeSymlink != 0 {
		if info.Target, err = os.Readlink(path); err != nil {
			return Info{}, err
		}
	}
	return info, nil
}

// Open implements Files. A staged build is the user's, who may put a pipe or a device
// in its place: opening the one, or reading the other, would never end, and the lock
// would be held meanwhile.
func (disk) Open(path string) (io.ReadCloser, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is no regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// List implements Files.
func (disk) List(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// MakeDir implements Files.
func (disk) MakeDir(ctx context.Context, path string, attr Attr) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// What was there may be a link, and the commands below would follow it.
	if info, err := os.Lstat(path); err != nil || !info.IsDir() {
		return errors.Join(err, &fs.PathError{Op: "mkdir", Path: path, Err: unix.ENOTDIR})
	}
	return setAttr(ctx, path, attr)
}

// Replace implements Files.
func (disk) Replace(ctx context.Context, path string, c Content) error {
	stage := cmp.Or(c.Stage, filepath.Dir(path))
	f := atomicfile.File{
		Path: path, Temp: atomicfile.Temp(filepath.Join(stage, filepath.Base(path))),
		Finish: func(f *os.File) error { return setAttr(ctx, f.Name(), c.Attr) },
	}
	if err := os.RemoveAll(f.Temp); err != nil {
		return err
	}
	// What has taken effect must be proved by who replaced it: sshd reads its settings now.
	if err := f.Write(c.Data); err != nil && !errors.Is(err, atomicfile.ErrNameNotSynced) {
		return fmt.Errorf("replacing %s: %w", path, err)
	}
	return nil
}

// setAttr changes the owner first: until then nobody but root can read the file.
func setAttr(ctx context.Context, path string, attr Attr) error {
	if _, err := run(ctx, chownCommand, attr.Owner+":"+attr.Group, path); err != nil {
		return fmt.Errorf("giving %s to %s: %w", path, attr.Owner, err)
	}
	return os.Chmod(path, attr.Mode.Perm())
}

// Link implements Files.
func (disk) Link(path, target string) error {
	temp := atomicfile.Temp(path)
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.Symlink(target, temp); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// Rename implements Files.
func (disk) Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(to))
}

// Remove implements Files.
func (disk) Remove(path string) error { return filetree.Remove(path) }

// Lock implements Files.
func (disk) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}
