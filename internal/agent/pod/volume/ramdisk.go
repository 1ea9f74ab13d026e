package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"howett.net/plist"

	"github.com/macfleet/macfleet/internal/agent/hostos"
)

// RAMDisk is where things lie that must not reach a disk.
type RAMDisk interface {
	// Dir returns its directory and makes it when it is not there. The next agent
	// finds the same one; after a reboot of the host it is empty.
	Dir(ctx context.Context) (string, error)
	// Made returns the directory if it is there, without making it.
	Made() (string, bool)
}

// ramDiskError says which step of making a RAM disk failed.
type ramDiskError struct {
	// Step that failed, e.g. attaching a RAM disk.
	Step string
	Err  error
}

func (e *ramDiskError) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }

// Unwrap returns why.
func (e *ramDiskError) Unwrap() error { return e.Err }

type noRAMDisk struct{}

func (noRAMDisk) Dir(context.Context) (string, error) {
	return "", errors.New("this node is configured without one")
}
func (noRAMDisk) Made() (string, bool) { return "", false }

// Directory is a directory that is memory already, such as a tmpfs, or that stands
// in for one where nothing is secret.
type Directory string

// Dir makes the directory.
func (d Directory) Dir(context.Context) (string, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return "", &ramDiskError{Step: "making a directory", Err: err}
	}
	return string(d), nil
}

// Made returns the directory if it is there.
func (d Directory) Made() (string, bool) {
	_, err := os.Stat(string(d))
	return string(d), err == nil
}

const (
	// sectorBytes is the unit in which hdiutil counts.
	sectorBytes = 512
	// defaultRAMBytes is enough for the Secrets of two Pods, which maxPayload bounds, and for
	// volumes in memory. macOS takes memory only for what is written.
	defaultRAMBytes = 256 << 20
	// ramName is the volume's name.
	ramName = "macfleet-secrets"
	// ramMark is a file on the RAM disk that proves that it is mounted.
	ramMark = ".macfleet-ramdisk"
)

// HDIUtil is a RAM disk of macOS. It has a file system of its own, mounted where
// nobody but the agent's user can look.
type HDIUtil struct {
	// Mount is where it is mounted: an empty directory, made when it is not there.
	// Directories above it keep others out.
	Mount string
	// Bytes is its size; 0: 256 MiB.
	Bytes int64
	// Runner runs commands of macOS; nil: those of the host.
	Runner hostos.Runner

	mu sync.Mutex
	// proved: this process saw the disk in hdiutil's own list.
	proved bool
}

// Made returns the mount point if the RAM disk is mounted.
func (h *HDIUtil) Made() (string, bool) {
	_, err := os.Lstat(filepath.Join(h.Mount, ramMark))
	return h.Mount, err == nil
}

// Dir attaches, formats and mounts the RAM disk, unless it is mounted. Errors are
// *ramDiskError.
func (h *HDIUtil) Dir(ctx context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dir, made := h.Made()
	if made && h.proved {
		return dir, nil
	}
	mounted, err := h.mounted(ctx)
	if err != nil {
		return "", err
	}
	if !mounted {
		err = h.attach(ctx)
	}
	if err == nil {
		err = h.mark()
	}
	h.proved = err == nil
	return h.Mount, err
}

// images is what is read of `hdiutil info -plist`.
type images struct {
	Images []struct {
		Path     string `plist:"image-path"`
		Entities []struct {
			Mount string `plist:"mount-point"`
		} `plist:"system-entities"`
	} `plist:"images"`
}

// mounted asks hdiutil whether a RAM disk is mounted at our place.
func (h *HDIUtil) mounted(ctx context.Context) (bool, error) {
	const step = "listing attached disk images"
	out, err := h.run(ctx, "hdiutil", "info", "-plist")
	if err != nil {
		return false, &ramDiskError{step, err}
	}
	var list images
	if _, err := plist.Unmarshal([]byte(out), &list); err != nil {
		return false, &ramDiskError{step, err}
	}
	// hdiutil tells the real path, and ours may have links above it.
	real, err := filepath.EvalSymlinks(h.Mount)
	if err != nil {
		real = h.Mount
	}
	for _, i := range list.Images {
		for _, e := range i.Entities {
			if strings.HasPrefix(i.Path, "ram://") && (e.Mount == h.Mount || e.Mount == real) {
				return true, nil
			}
		}
	}
	return false, nil
}

// attach leaves nothing behind when it fails.
func (h *HDIUtil) attach(ctx context.Context) error {
	if err := os.MkdirAll(h.Mount, 0o700); err != nil {
		return &ramDiskError{"making the mount point", err}
	}
	bytes := h.Bytes
	if bytes <= 0 {
		bytes = defaultRAMBytes
	}
	out, err := h.run(ctx, "hdiutil", "attach", "-nomount", "ram://"+strconv.FormatInt(bytes/sectorBytes, 10))
	if err != nil {
		return &ramDiskError{"attaching a RAM disk", err}
	}
	device := strings.TrimSpace(out)
	if !strings.HasPrefix(device, "/dev/disk") || strings.ContainsAny(device, " \t\n") {
		return &ramDiskError{"attaching a RAM disk", fmt.Errorf("hdiutil printed %q instead of a device", device)}
	}
	if err := h.format(ctx, device); err != nil {
		_, detach := h.run(context.WithoutCancel(ctx), "hdiutil", "detach", device, "-force")
		return errors.Join(err, detach)
	}
	return nil
}

func (h *HDIUtil) format(ctx context.Context, device string) error {
	raw := strings.Replace(device, "/dev/disk", "/dev/rdisk", 1)
	if _, err := h.run(ctx, "newfs_hfs", "-v", ramName, raw); err != nil {
		return &ramDiskError{"formatting the RAM disk", err}
	}
	if _, err := h.run(ctx, "diskutil", "mount", "nobrowse", "-mountPoint", h.Mount, device); err != nil {
		return &ramDiskError{"mounting the RAM disk", err}
	}
	return nil
}

func (h *HDIUtil) mark() error {
	const step = "preparing the RAM disk"
	if err := os.Chmod(h.Mount, 0o700); err != nil {
		return &ramDiskError{step, err}
	}
	if err := os.WriteFile(filepath.Join(h.Mount, ramMark), nil, 0o600); err != nil {
		return &ramDiskError{step, err}
	}
	return nil
}

func (h *HDIUtil) run(ctx context.Context, name string, args ...string) (string, error) {
	if h.Runner == nil {
		return hostos.Commands{}.Run(ctx, name, args...)
	}
	return h.Runner.Run(ctx, name, args...)
}
