// Package checkpoint keeps on the disk what must be known of a Pod after a crash: one
// directory a Pod UID with its record, and in it one directory an attempt, which
// belongs to the attempt's shim.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/atomicfile"
)

// Store is the directory of all checkpoints.
type Store string

// Dir is a Pod's directory.
func (s Store) Dir(uid types.UID) string { return filepath.Join(string(s), string(uid)) }

func (s Store) recordFile(uid types.UID) string { return filepath.Join(s.Dir(uid), "record.json") }

const attemptPrefix = "attempt-"

// AttemptDir is the directory of an attempt's shim.
func (s Store) AttemptDir(uid types.UID, attempt int) string {
	return filepath.Join(s.Dir(uid), attemptPrefix+strconv.Itoa(attempt))
}

// Save writes a record, which is on the disk when it returns.
func (s Store) Save(r state.Record) error {
	if err := os.MkdirAll(s.Dir(r.UID), 0o700); err != nil {
		return fmt.Errorf("making a checkpoint: %w", err)
	}
	if err := atomicfile.WriteJSON(s.recordFile(r.UID), r); err != nil {
		return fmt.Errorf("writing the checkpoint of a Pod: %w", err)
	}
	return nil
}

// Load returns nil when there is no record. An unreadable one is moved aside: the
// machines' names and locks say enough.
func (s Store) Load(uid types.UID) (*state.Record, error) {
	path := s.recordFile(uid)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint of a Pod: %w", err)
	}
	var r state.Record
	if err := json.Unmarshal(data, &r); err != nil || r.UID != uid {
		if err := os.Rename(path, path+".unreadable"); err != nil {
			return nil, fmt.Errorf("moving an unreadable checkpoint aside: %w", err)
		}
		return nil, nil
	}
	return &r, nil
}

// Remove removes all of a Pod.
func (s Store) Remove(uid types.UID) error {
	if err := os.RemoveAll(s.Dir(uid)); err != nil {
		return fmt.Errorf("removing the checkpoint of a Pod: %w", err)
	}
	return nil
}

// ClearAttempt makes room for an attempt that is made again.
func (s Store) ClearAttempt(uid types.UID, attempt int) error {
	if err := os.RemoveAll(s.AttemptDir(uid, attempt)); err != nil {
		return fmt.Errorf("clearing an attempt: %w", err)
	}
	return nil
}

// DropAttempts removes what is left of all attempts but those that are kept.
func (s Store) DropAttempts(uid types.UID, kept []int) error {
	attempts, err := s.attempts(uid)
	errs := []error{err}
	for _, n := range attempts {
		if !slices.Contains(kept, n) {
			errs = append(errs, s.ClearAttempt(uid, n))
		}
	}
	return errors.Join(errs...)
}

// LastAttempt is the highest that has a directory; -1: none has.
func (s Store) LastAttempt(uid types.UID) (int, error) {
	attempts, err := s.attempts(uid)
	return slices.Max(append(attempts, -1)), err
}

func (s Store) attempts(uid types.UID) ([]int, error) {
	entries, err := os.ReadDir(s.Dir(uid))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing attempts: %w", err)
	}
	var attempts []int
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), attemptPrefix)
		if n, err := strconv.Atoi(number); ours && err == nil {
			attempts = append(attempts, n)
		}
	}
	return attempts, nil
}

// UIDs lists the Pods that have a checkpoint.
func (s Store) UIDs() ([]types.UID, error) {
	entries, err := os.ReadDir(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing checkpoints: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		uids = append(uids, types.UID(e.Name()))
	}
	return uids, nil
}
