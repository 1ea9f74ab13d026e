// Package filetree walks and removes trees of files that somebody else wrote, who
// may want to exhaust us: with more files than fit in memory, or deeper than there
// are descriptors. It follows no link, and needs the same memory and descriptors
// whatever the tree is like.
package filetree

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// batch is how many entries of a directory are held at once.
const batch = 256

// Limits of a walk. Zero values mean no limit of entries, and maxDepth.
type Limits struct {
	// Entries is how many files, directories and others the tree may have.
	Entries int
	// Depth is how many directories may lie inside one another. A walk holds two
	// descriptors for each.
	Depth int
}

// maxDepth is the limit of a walk that sets none.
const maxDepth = 64

// LimitError says which limit a tree is beyond. The walk ended there.
type LimitError struct {
	// What there is too much of: "entries" or "directories inside one another".
	What string
	// Limit that was passed.
	Limit int
}

func (e *LimitError) Error() string { return fmt.Sprintf("more than %d %s", e.Limit, e.What) }

// Walk calls visit for each entry below dir, with its path there, in no order. What
// vanishes or cannot be read meanwhile is left out; a directory that forbids reading
// is opened to its owner first. The error is a *LimitError, or says why dir itself
// cannot be opened.
func Walk(dir string, limits Limits, visit func(name string, info fs.FileInfo)) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	limits.Depth = cmp.Or(limits.Depth, maxDepth)
	w := walker{limits: limits, visit: visit}
	return w.walk(root, "", 0)
}

type walker struct {
	limits Limits
	visit  func(string, fs.FileInfo)
	seen   int
}

func (w *walker) walk(dir *os.Root, rel string, depth int) error {
	return each(dir, func(name string) error {
		if w.seen++; w.limits.Entries > 0 && w.seen > w.limits.Entries {
			return &LimitError{What: "entries", Limit: w.limits.Entries}
		}
		info, err := dir.Lstat(name)
		if err != nil {
			return nil // it vanished
		}
		at := path.Join(rel, name)
		w.visit(at, info)
		if !info.IsDir() {
			return nil
		}
		if depth+1 > w.limits.Depth {
			return &LimitError{What: "directories inside one another", Limit: w.limits.Depth}
		}
		child, err := open(dir, name)
		if err != nil {
			return nil // it vanished, or is not ours
		}
		defer child.Close()
		return w.walk(child, at, depth+1)
	})
}

// each calls do for the entries of a directory, and stops at its first error. A
// directory that cannot be read counts as empty.
func each(dir *os.Root, do func(name string) error) error {
	f, err := dir.Open(".")
	if err != nil {
		return nil
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(batch)
		for _, e := range entries {
			if err := do(e.Name()); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// open opens a directory, also one that forbids it to its owner.
func open(dir *os.Root, name string) (*os.Root, error) {
	if err := allow(dir, name); err != nil {
		return nil, err
	}
	return dir.OpenRoot(name)
}

// asRoot: no mode forbids us anything.
func asRoot() bool { return os.Geteuid() == 0 }

// allow lets the owner of a directory read and change it. Root may do both anyway, and
// changes no modes: whoever owns the tree can put a hard link to a file that is not
// theirs in the directory's place, once it was looked at.
func allow(dir *os.Root, name string) error {
	if asRoot() {
		return nil
	}
	info, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	const owner = 0o700
	if !info.IsDir() || info.Mode().Perm()&owner == owner {
		return nil
	}
	return dir.Chmod(name, info.Mode().Perm()|owner)
}
