package tart

import (
	"fmt"
	"os"
	"path/filepath"
)

// originFile in a VM's directory is ours, not tart's: what the VM was cloned from, a
// line each, so that a fault of an image is also one of its clones.
const originFile = "fake-origin"

func (vm vmDir) comesFrom(names string) error {
	if err := os.WriteFile(filepath.Join(string(vm), originFile), []byte(names), 0o644); err != nil {
		return fmt.Errorf("noting where a VM comes from: %w", err)
	}
	return nil
}

// origin is empty for what was not cloned, such as an image.
func (vm vmDir) origin() string {
	data, err := os.ReadFile(filepath.Join(string(vm), originFile))
	if err != nil {
		return ""
	}
	return string(data)
}

// names are what faults know a VM by: its own, and those it comes from.
func (vm vmDir) names() string { return vm.name() + "\n" + vm.origin() }
