package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/macfleet/macfleet/sandbox/world"
)

// state is what other commands need to know of a running sandbox.
type state struct {
	PID        int            `json:"pid"`
	Kubeconfig string         `json:"kubeconfig"`
	VendorURL  string         `json:"vendorURL"`
	MetricsURL string         `json:"metricsURL"`
	ReadyURL   string         `json:"readyURL"`
	SSHPort    int            `json:"sshPort"`
	Binaries   world.Binaries `json:"binaries"`
}

func statePath(dir string) string { return filepath.Join(dir, "state.json") }

func (s state) write(dir string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	temp := statePath(dir) + ".new"
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		return fmt.Errorf("writing the sandbox's state: %w", err)
	}
	return os.Rename(temp, statePath(dir))
}

// errGarbledState: another version wrote it, or something else did.
var errGarbledState = errors.New("it can't be understood")

func readState(dir string) (state, error) {
	var s state
	content, err := os.ReadFile(statePath(dir))
	if errors.Is(err, os.ErrNotExist) {
		return s, fmt.Errorf("the sandbox in %s is still starting or already stopping", dir)
	}
	if err != nil {
		return s, fmt.Errorf("reading the sandbox's state: %w", err)
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return s, fmt.Errorf("reading %s: %w: %w", statePath(dir), errGarbledState, err)
	}
	return s, nil
}

// endPath holds why a sandbox ended by itself.
func endPath(dir string) string { return filepath.Join(dir, "ended") }

func noteEnd(dir string, why error) error {
	return os.WriteFile(endPath(dir), []byte(oneLine(why)), 0o600)
}

// lockPath is next to the directory, so that `down` can remove the directory.
func lockPath(dir string) string { return dir + ".lock" }

// takeLock makes this process the sandbox of the directory; the lock goes with it,
// however it ends.
func takeLock(dir string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, fmt.Errorf("creating the sandbox's place: %w", err)
	}
	file, err := os.OpenFile(lockPath(dir), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the sandbox's lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("a sandbox runs in %s already", dir), file.Close())
	}
	return file, nil
}

// lockHeld tells whether a sandbox runs in the directory.
func lockHeld(dir string) (bool, error) {
	file, err := os.OpenFile(lockPath(dir), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at the sandbox's lock: %w", err)
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK), nil
}
