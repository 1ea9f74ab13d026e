// Package prefs models the preferences of a Mac: property lists on disk behind
// a daemon that keeps them in memory, and the defaults command. Who may write
// where on the real disk, and that a boot starts with an empty memory, is left
// to the caller.
package prefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"howett.net/plist"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// Options configure a Store.
type Options struct {
	// Username is the user of wire.UserUID.
	Username string
	// PlatformUUID names the files of settings for this host only.
	PlatformUUID string
	// Root is put before every path; empty on the Mac itself.
	Root string
	// Fresh turns the memory off; nil means it is on.
	Fresh func() bool
	// Own is told whose a file is that was written; may be nil.
	Own func(path string, uid int) error
}

// Store is the preferences daemon of one boot.
type Store struct {
	o  Options
	mu sync.Mutex
	// cache holds domains by the path of their file, nil for one that is missing.
	cache map[string]map[string]any
}

// New returns a store with an empty memory.
func New(o Options) *Store {
	return &Store{o: o, cache: map[string]map[string]any{}}
}

// domainPath is the file of a domain as it is named on the command line.
func (s *Store) domainPath(uid int, domain string, thisHost bool) string {
	if strings.HasPrefix(domain, "/") {
		return strings.TrimSuffix(domain, ".plist") + ".plist"
	}
	home := "/var/root"
	if uid != wire.RootUID {
		home = "/Users/" + s.o.Username
	}
	switch domain {
	case "NSGlobalDomain", "-g", "-globalDomain", "Apple Global Domain":
		domain = ".GlobalPreferences"
	}
	dir := filepath.Join(home, "Library/Preferences")
	if thisHost {
		return filepath.Join(dir, "ByHost", domain+"."+s.o.PlatformUUID+".plist")
	}
	return filepath.Join(dir, domain+".plist")
}

// String is a value of a domain that is a string; empty when it is not there.
func (s *Store) String(path, key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.loadLocked(path)
	if err != nil {
		return ""
	}
	v, _ := d[key].(string)
	return v
}

// loadLocked returns a domain, from memory when it is there; a missing file is
// a nil map.
func (s *Store) loadLocked(path string) (map[string]any, error) {
	if d, ok := s.cache[path]; ok && (s.o.Fresh == nil || !s.o.Fresh()) {
		return d, nil
	}
	data, err := os.ReadFile(filepath.Join(s.o.Root, path))
	if errors.Is(err, fs.ErrNotExist) {
		s.cache[path] = nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading preferences: %w", err)
	}
	d := map[string]any{}
	if _, err := plist.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("reading preferences %s: %w", path, err)
	}
	s.cache[path] = d
	return d, nil
}

// saveLocked writes a domain, as a binary property list under the mode that
// the daemon gives it, and keeps it in memory.
func (s *Store) saveLocked(path string, uid int, d map[string]any) error {
	data, err := plist.Marshal(d, plist.BinaryFormat)
	if err != nil {
		return fmt.Errorf("encoding preferences: %w", err)
	}
	full := filepath.Join(s.o.Root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return fmt.Errorf("writing preferences: %w", err)
	}
	mode := fs.FileMode(0o600)
	if strings.HasPrefix(path, "/Library/") {
		mode = 0o644
	}
	next := full + ".next"
	if err := os.WriteFile(next, data, mode); err != nil {
		return fmt.Errorf("writing preferences: %w", err)
	}
	if err := os.Rename(next, full); err != nil {
		return fmt.Errorf("writing preferences: %w", err)
	}
	s.cache[path] = d
	if s.o.Own == nil {
		return nil
	}
	return s.o.Own(path, uid)
}

// mayWrite reports whether a user may change a domain's file: root all, the
// user what is below the own home or in a temporary folder.
func (s *Store) mayWrite(uid int, path string) bool {
	if uid == wire.RootUID {
		return true
	}
	for _, place := range []string{"/Users/" + s.o.Username + "/", "/tmp/", "/private/tmp/", "/Users/Shared/"} {
		if strings.HasPrefix(filepath.Clean(path), place) {
			return true
		}
	}
	return false
}
