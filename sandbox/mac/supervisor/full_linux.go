package supervisor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// pageSize is what a tmpfs accounts in.
const pageSize = 4 << 10

// volume is the Mac's disk, which can be filled up and emptied again.
type volume struct{ *pid1 }

// fill puts a small file system over a folder, holding what the folder held
// and room for a few bytes more, or takes it away again, leaving what it held.
// What was open before stays on the other one.
func (p volume) fill(f wire.FullDisk) error {
	real, err := filepath.EvalSymlinks(f.Path)
	if err != nil {
		return fmt.Errorf("filling the disk: %w", err)
	}
	if f.Undo {
		return p.unfill(real)
	}
	size, err := sizeBelow(real)
	if err != nil {
		return fmt.Errorf("filling the disk: %w", err)
	}
	beneath, err := os.OpenRoot(real)
	if err != nil {
		return fmt.Errorf("filling the disk: %w", err)
	}
	defer beneath.Close()
	mode, err := os.Stat(real)
	if err != nil {
		return fmt.Errorf("filling the disk: %w", err)
	}
	options := fmt.Sprintf("mode=%o,size=%d", mode.Mode().Perm(), size+(f.Free+pageSize-1)/pageSize*pageSize)
	if err := unix.Mount("tmpfs", real, "tmpfs", 0, options); err != nil {
		return fmt.Errorf("filling the disk: %w", err)
	}
	if err := p.copyTree(beneath, real); err != nil {
		return fmt.Errorf("filling the disk: %w", errors.Join(err, unix.Unmount(real, unix.MNT_DETACH)))
	}
	return nil
}

// unfill moves the content of the small file system to where it belongs.
func (p volume) unfill(dir string) error {
	small, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	defer small.Close()
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	old, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	for _, e := range old {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("making room: %w", err)
		}
	}
	if err := p.copyTree(small, dir); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	return nil
}

// sizeBelow is what the content of a folder takes in whole pages.
func sizeBelow(dir string) (int64, error) {
	var size int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			size += (info.Size() + pageSize - 1) / pageSize * pageSize
		}
		return err
	})
	return size, err
}

// copyTree copies folders, files and links with their modes and owners.
func (p volume) copyTree(from *os.Root, to string) error {
	return fs.WalkDir(from.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		owner, err := p.ownerIn(from, name, target)
		if err != nil {
			return err
		}
		if err := copyEntry(from, name, target, info); err != nil || !kept(info.Mode()) {
			return err
		}
		inode, err := wire.InodeOf(target)
		if err != nil {
			return err
		}
		return p.state.setOwner(inode, owner)
	})
}

// ownerIn is the owner of what is covered and has no path of its own.
func (p volume) ownerIn(root *os.Root, name, path string) (wire.Owner, error) {
	dir, err := root.Open(filepath.Dir(name))
	if err != nil {
		return wire.Owner{}, err
	}
	defer dir.Close()
	inode, err := wire.InodeAt(dir, filepath.Base(name))
	return p.state.owner(wire.OwnerCall{Inode: inode, Path: path}), err
}

// kept are the kinds of files that are copied; whoever owns a socket makes it
// again.
func kept(m fs.FileMode) bool { return m.IsRegular() || m.IsDir() || m&fs.ModeSymlink != 0 }

func copyEntry(from *os.Root, name, to string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		if err := os.Mkdir(to, 0o700); err != nil {
			return err
		}
		return os.Chmod(to, info.Mode())
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := from.Readlink(name)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case !kept(info.Mode()):
		return nil
	}
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(info.Mode()), out.Close())
}
