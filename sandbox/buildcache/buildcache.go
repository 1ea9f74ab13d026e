// Package buildcache keeps finished builds. Each is an entry, a folder of the cache that
// never changes. An entry goes when nobody has used it for long, and never while somebody
// holds it, as those do who run its programs.
package buildcache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// TempPrefix begins the names of folders that are built into.
const TempPrefix = ".building-"

// errGone: the entry was removed while it was being opened.
var errGone = errors.New("it was just removed")

// Held is an entry that somebody uses. The process' end lets go of it, too.
type Held struct{ folder *os.File }

// Hold keeps an entry from being removed until it is closed.
func Hold(entry string) (*Held, error) {
	folder, err := os.Open(filepath.Clean(entry))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_SH); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", entry, err), folder.Close())
	}
	if !isStill(folder, entry) {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", entry, errGone), folder.Close())
	}
	return &Held{folder: folder}, nil
}

// Close lets go, and marks the entry as used until now.
func (h *Held) Close() error {
	mark(h.folder.Name())
	return h.folder.Close()
}

// Use says whether the cache has an entry, and marks it as used.
func Use(entry string) bool {
	if held, err := Hold(entry); err == nil {
		_ = held.Close() // nothing was written
	}
	_, err := os.Stat(entry)
	return err == nil
}

// Put makes a finished folder the entry. One that is there already stays, with its files.
func Put(temp, entry string) error {
	if Use(entry) {
		return os.RemoveAll(temp)
	}
	if err := os.Chmod(temp, 0o755); err != nil { // MkdirTemp's are their maker's alone
		return fmt.Errorf("opening the build for reading: %w", err)
	}
	err := os.Rename(temp, entry)
	if err != nil && Use(entry) { // another builder was faster
		return os.RemoveAll(temp)
	}
	if err != nil {
		return fmt.Errorf("putting the build into the cache: %w", err)
	}
	return nil
}

// Prune removes what matches one of the patterns, was not used since then, and nobody
// holds. It is house-keeping: what it cannot remove, the next one will.
func Prune(cacheDir string, since time.Time, patterns []string, keep ...string) {
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(cacheDir, pattern))
		if err != nil {
			continue
		}
		for _, path := range paths {
			if !slices.Contains(keep, path) {
				removeUnused(path, since)
			}
		}
	}
}

// removeUnused looks at the time under the lock, so that who begins to use it then finds
// either all of it or nothing.
func removeUnused(path string, since time.Time) {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return
	}
	defer file.Close() //nolint:errcheck // only read
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return
	}
	if info, err := file.Stat(); err != nil || info.ModTime().After(since) {
		return
	}
	_ = os.RemoveAll(path)
}

func isStill(open *os.File, path string) bool {
	now, err := os.Stat(path)
	if err != nil {
		return false
	}
	then, err := open.Stat()
	return err == nil && os.SameFile(now, then)
}

// mark only feeds Prune: an entry that cannot be written still serves.
func mark(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now)
}
