package tart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// home is TART_HOME.
type home string

func (h home) vms() string       { return filepath.Join(string(h), "vms") }
func (h home) images() string    { return filepath.Join(string(h), "cache", "OCIs") }
func (h home) temporary() string { return filepath.Join(string(h), "tmp") }

// registry is where the images of a registry are: since 2.11 the colon before a port
// is encoded, and nothing else.
func (h home) registry(host string) string {
	return filepath.Join(h.images(), strings.ReplaceAll(host, ":", "%3A"))
}

// volumes is where volumes are mounted. Only root makes folders there, which the kernel of
// this system does not hold the user to.
const volumes = "/Volumes/"

// unmounted is the refusal to make a folder where a volume should be mounted.
func (h home) unmounted() error {
	below, is := strings.CutPrefix(string(h), volumes)
	name, _, _ := strings.Cut(below, "/")
	if _, err := os.Lstat(volumes + name); !is || os.Getuid() == 0 || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &fs.PathError{Op: "mkdir", Path: volumes + name, Err: fs.ErrPermission}
}

func (h home) prepare() error {
	if err := h.unmounted(); err != nil {
		return fmt.Errorf("preparing TART_HOME: %w", err)
	}
	for _, dir := range []string{h.vms(), h.images(), h.temporary()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("preparing TART_HOME: %w", err)
		}
	}
	return nil
}

// lock serialises clone, rename and the start of run.
func (h home) lock() (flocked, error) { return flock(string(h)) }

// collectTemporary deletes what no living command has locked.
func (h home) collectTemporary() {
	entries, err := os.ReadDir(h.temporary())
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(h.temporary(), e.Name())
		lock, taken, err := tryFlock(path)
		if err != nil || !taken {
			continue
		}
		_ = os.RemoveAll(path)
		lock.close()
	}
}

// newTemporary makes a locked directory; release removes it if it is still there.
func (h home) newTemporary() (dir vmDir, release func(), err error) {
	return h.lockedTemporary(uuid.NewString())
}

// lockedTemporary is newTemporary under a fixed name, and keeps what is there.
func (h home) lockedTemporary(name string) (dir vmDir, release func(), err error) {
	path := filepath.Join(h.temporary(), name)
	for {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return "", nil, fmt.Errorf("making a temporary directory: %w", err)
		}
		lock, err := flock(path)
		if err != nil && !os.IsNotExist(err) {
			return "", nil, fmt.Errorf("locking a temporary directory: %w", err)
		}
		// Another command may have collected it before it was locked.
		if err == nil && lock.holds(path) {
			return vmDir(path), func() {
				_ = os.RemoveAll(path)
				lock.close()
			}, nil
		}
		lock.close()
	}
}

// local finds a local VM by name: exit class 2 when it is not there at all.
func (h home) local(name string) (vmDir, error) {
	vm := vmDir(filepath.Join(h.vms(), name))
	if _, err := os.Stat(string(vm)); err != nil {
		return "", doesNotExist(name)
	}
	if !vm.runnable() {
		return "", runtimeError("VM is missing some of its files (config.json, disk.img or nvram.bin)")
	}
	return vm, nil
}

// locals lists the complete local VMs, sorted by name.
func (h home) locals() ([]vmDir, error) {
	entries, err := os.ReadDir(h.vms())
	if err != nil {
		return nil, fmt.Errorf("listing VMs: %w", err)
	}
	var vms []vmDir
	for _, e := range entries {
		if vm := vmDir(filepath.Join(h.vms(), e.Name())); vm.runnable() {
			vms = append(vms, vm)
		}
	}
	return vms, nil
}

// place moves a finished directory to a name and removes what was there before,
// running or not: tart asks nobody.
func (h home) place(from vmDir, to string) error {
	replaced := filepath.Join(h.temporary(), uuid.NewString())
	if err := os.Rename(to, replaced); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("replacing %s: %w", to, err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("placing %s: %w", to, err)
	}
	if err := os.Rename(string(from), to); err != nil {
		return fmt.Errorf("placing %s: %w", to, err)
	}
	return os.RemoveAll(replaced)
}
