package filetree

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// maxHeld is how many directories inside one another are open at once while a tree
// is removed. What lies deeper is moved to the top first.
const maxHeld = 32

// Remove removes a file or a tree, also one that forbids it to its owner. It is no
// error when there is none.
func Remove(name string) error {
	root, err := os.OpenRoot(filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return RemoveIn(root, filepath.Base(name))
}

// RemoveIn is Remove for an entry of a directory that is open. name is one component.
func RemoveIn(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		top, err := open(root, name)
		if err != nil {
			return fmt.Errorf("opening %s: %w", name, err)
		}
		r := remover{top: top}
		err = errors.Join(r.clear(top, "", 0), top.Close())
		if err != nil {
			return err
		}
	}
	if err := root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

type remover struct {
	top *os.Root
}

// clear removes what is in a directory. Some file systems leave entries out of a
// listing while others are removed, so it looks again until there is nothing.
func (r *remover) clear(dir *os.Root, rel string, depth int) error {
	for {
		found := false
		err := each(dir, func(name string) error {
			found = true
			return r.remove(dir, path.Join(rel, name), name, depth)
		})
		if err != nil || !found {
			return err
		}
	}
}

func (r *remover) remove(dir *os.Root, rel, name string, depth int) error {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return dir.Remove(name)
	}
	if depth == maxHeld {
		return r.raise(dir, rel, name)
	}
	if err := r.clearBelow(dir, rel, name, depth); err != nil {
		return err
	}
	return dir.Remove(name)
}

func (r *remover) clearBelow(dir *os.Root, rel, name string, depth int) error {
	child, err := open(dir, name)
	if err != nil {
		return fmt.Errorf("opening %s: %w", rel, err)
	}
	defer child.Close()
	return r.clear(child, rel, depth+1)
}

// raise moves a directory to the top, where clear finds it when it looks again.
func (r *remover) raise(dir *os.Root, rel, name string) error {
	// Moving it writes to it: its entry .. changes.
	if err := allow(dir, name); err != nil {
		return err
	}
	return r.top.Rename(rel, "raised-"+rand.Text())
}
