package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/macfleet/macfleet/sandbox/mac/apfs"
	"github.com/macfleet/macfleet/sandbox/mac/launchd"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// document is what a Mac's disk would hold and the tree cannot.
type document struct {
	Owners    map[string]wire.Owner `json:"owners,omitempty"`
	Names     map[string]string     `json:"names,omitempty"`
	Overrides map[string]bool       `json:"overrides,omitempty"`
	// Registrations are those of background task management.
	Registrations launchd.Registrations `json:"registrations,omitzero"`
	// Resigned maps the SHA-256 of a program that was signed here to that of
	// the program it was made from.
	Resigned map[string]string `json:"resigned,omitempty"`
	// Volumes were added to the disk; Power are settings that were changed.
	Volumes []apfs.Volume  `json:"volumes,omitempty"`
	Power   map[string]int `json:"power,omitempty"`
}

// state keeps the document in memory and, through a handle opened before the
// outside became unreachable, in a file outside the tree.
type state struct {
	username string
	dir      *os.Root
	mu       sync.Mutex
	doc      document
}

func openState(cfg wire.Config) (*state, error) {
	dir, err := os.OpenRoot(cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("opening the state folder: %w", err)
	}
	s := &state{username: cfg.Username, dir: dir}
	data, err := dir.ReadFile(wire.StateFile)
	if err == nil {
		err = json.Unmarshal(data, &s.doc)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the state document: %w", err)
	}
	if err != nil { // a fresh disk
		s.doc.Overrides = map[string]bool{wire.ScreenSharing: false}
	}
	if s.doc.Owners == nil {
		s.doc.Owners = map[string]wire.Owner{}
	}
	if s.doc.Names == nil {
		s.doc.Names = map[string]string{}
	}
	return s, nil
}

// saveLocked replaces the file by rename, so that a power cut leaves the old
// document or the new one.
func (s *state) saveLocked() error {
	data, err := json.Marshal(s.doc)
	if err != nil {
		return fmt.Errorf("encoding the state document: %w", err)
	}
	const next = wire.StateFile + ".next"
	if err := s.dir.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("writing the state document: %w", err)
	}
	if err := s.dir.Rename(next, wire.StateFile); err != nil {
		return fmt.Errorf("replacing the state document: %w", err)
	}
	return nil
}

func inodeKey(i wire.Inode) string { return fmt.Sprintf("%x:%x:%x", i.Dev, i.Ino, i.Birth) }

// owner is the recorded owner of a file, or the one its place suggests: what
// lies in a user's folder or a temporary one is the user's, and so is what was
// made in a folder that was given to the user.
func (s *state) owner(c wire.OwnerCall) wire.Owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownerLocked(c.Inode, c.Path)
}

func (s *state) ownerLocked(i wire.Inode, path string) wire.Owner {
	if o, ok := s.doc.Owners[inodeKey(i)]; ok {
		return o
	}
	for _, place := range []string{"/Users/" + s.username, "/private/tmp/", "/private/var/folders/", "/opt/homebrew"} {
		if path == place || strings.HasPrefix(path, strings.TrimSuffix(place, "/")+"/") {
			return wire.Owner{UID: wire.UserUID, GID: wire.StaffGID}
		}
	}
	folder := filepath.Dir(path)
	if above, err := wire.InodeOf(folder); err == nil && folder != path {
		if o := s.ownerLocked(above, folder); o.UID == wire.UserUID {
			return o
		}
	}
	return wire.Owner{UID: wire.RootUID, GID: wire.WheelGID}
}

func (s *state) setOwner(i wire.Inode, o wire.Owner) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doc.Owners[inodeKey(i)] == o && o != (wire.Owner{}) {
		return nil
	}
	s.doc.Owners[inodeKey(i)] = o
	return s.saveLocked()
}

func (s *state) name(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.doc.Names[key]
	return v, ok
}

func (s *state) setName(key, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doc.Names[key] = value
	return s.saveLocked()
}

func (s *state) overrides() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.doc.Overrides)
}

func (s *state) setOverrides(o map[string]bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doc.Overrides = o
	return s.saveLocked()
}

func (s *state) registrations() launchd.Registrations {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doc.Registrations
}

func (s *state) setRegistrations(r launchd.Registrations) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doc.Registrations = r
	return s.saveLocked()
}

// origin is the program that a signed one was made from, or the same.
func (s *state) origin(sum string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from, ok := s.doc.Resigned[sum]; ok {
		return from
	}
	return sum
}

func (s *state) setResigned(sum, from string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.doc.Resigned[from]; ok {
		from = before
	}
	if s.doc.Resigned == nil {
		s.doc.Resigned = map[string]string{}
	}
	s.doc.Resigned[sum] = from
	return s.saveLocked()
}

func (s *state) volumes() []apfs.Volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doc.Volumes
}

func (s *state) setVolumes(v []apfs.Volume) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doc.Volumes = v
	return s.saveLocked()
}

func (s *state) power() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doc.Power
}

func (s *state) setPower(p map[string]int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doc.Power = p
	return s.saveLocked()
}
