package stage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Remains is what a Mac without Pods must not hold any more: machines of the
// agent's, journals, volumes, secrets, and processes but the agent's own.
func (m *Mac) Remains() []string {
	var left []string
	for _, e := range entries(m.Machines()) {
		if _, _, ours := OwnerOf(e); ours {
			left = append(left, "machine "+e)
		}
	}
	for _, dir := range []string{"pods", "volumes", "secrets", "ramdisk"} {
		for _, e := range entries(m.Path("state", dir)) {
			left = append(left, fmt.Sprintf("%s %v", filepath.Join("state", dir, e), below(m.Path("state", dir, e))))
		}
	}
	for _, p := range m.Processes() {
		// A run or guest without a machine of ours is somebody else's.
		if p.Role == RoleShim || (p.Role == RoleRun || p.Role == RoleGuest) && p.Machine != "" {
			left = append(left, fmt.Sprintf("process %d: %s %s", p.PID, p.Role, p.Machine))
		}
	}
	return left
}

// below names the files in a folder.
func below(dir string) []string {
	var files []string
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			files = append(files, rel)
		}
		return nil // what vanishes meanwhile is not there
	})
	return files
}

func entries(dir string) []string {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(list))
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// LimitDisk puts the agent's state on a file system of its own of so many bytes, so
// that it can be full. It needs root; the error says so. Before the first start.
func (m *Mac) LimitDisk(bytes int64) error {
	mount := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d,mode=0700", bytes), "macfleet-stage", m.Path("state"))
	if text, err := mount.CombinedOutput(); err != nil {
		return fmt.Errorf("mounting a small file system, which needs root: %w: %s", err, text)
	}
	m.small = true
	return nil
}

// FillDisk takes all that is left of LimitDisk's bytes; FreeDisk gives it back.
func (m *Mac) FillDisk() error {
	f, err := os.OpenFile(m.Path("state", filler), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("filling the disk: %w", err)
	}
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			return errors.Join(fmt.Errorf("filling the disk: %w", err), f.Close())
		}
	}
	return f.Close()
}

// filler is the file that fills the disk.
const filler = "filler"

// FreeDisk ends FillDisk.
func (m *Mac) FreeDisk() error {
	err := os.Remove(m.Path("state", filler))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// unmount ends LimitDisk.
func (m *Mac) unmount() error {
	if !m.small {
		return nil
	}
	if text, err := exec.Command("umount", "-l", m.Path("state")).CombinedOutput(); err != nil {
		return fmt.Errorf("unmounting a small file system: %w: %s", err, text)
	}
	m.small = false
	return nil
}
