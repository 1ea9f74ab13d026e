package tart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// createLock is our own, below TART_HOME. It makes Create's look and clone one step,
// as tart itself replaces without asking.
const createLock = ".macfleet-create.lock"

// Create clones and then sets the shape; a clone whose shape cannot be set is
// deleted again.
func (d *Driver) Create(ctx context.Context, name, ref string, shape vm.Shape) error {
	if err := checkName(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cloneTimeout)
	defer cancel()
	// By its digest: the tag may move before tart reads it. Not held here, tart would
	// pull it by itself, without credentials and without anybody seeing.
	image, err := d.held(ctx, ref)
	if err != nil {
		return err
	}
	if err := d.clone(ctx, name, image); err != nil {
		return err
	}
	if err := d.reshape(ctx, name, shape); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
		defer cancel()
		return errors.Join(err, d.Delete(cleanup, name))
	}
	return nil
}

func (d *Driver) clone(ctx context.Context, name, image string) error {
	lock, err := d.lockCreate(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if _, err := os.Lstat(d.machineDir(name)); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return fmt.Errorf("looking for machine %s: %w", name, err)
		}
		return fmt.Errorf("cloning %s: %w", name, vm.ErrExists)
	}
	// The child inherits the lock: should this process be killed, the next one waits
	// until the clone is whole, and then sees it.
	_, err = d.run(ctx, command{args: []string{"clone", image, name}, inherit: lock})
	switch {
	case err == nil:
		return nil
	case d.taken(name, err):
		return fmt.Errorf("cloning %s to %s: %w: %w", image, name, vm.ErrExists, err)
	}
	return fmt.Errorf("cloning %s to %s: %w", image, name, err)
}

// taken reports whether a clone failed as somebody took the name since we looked. A
// later tart refuses then; up to 2.36 it replaces.
func (d *Driver) taken(name string, err error) bool {
	_, there := os.Lstat(d.machineDir(name))
	return there == nil && strings.Contains(err.Error(), "already exists")
}

// lockCreate waits for the lock; closing the file gives it up.
func (d *Driver) lockCreate(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(d.home, createLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the creation of machines: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			_ = f.Close()
			return nil, fmt.Errorf("locking the creation of machines: %w", err)
		case ctx.Err() != nil:
			_ = f.Close()
			return nil, fmt.Errorf("waiting for the creation of another machine: %w", context.Cause(ctx))
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// reshape gives a clone its shape and its identity, and makes sure that it boots.
func (d *Driver) reshape(ctx context.Context, name string, shape vm.Shape) error {
	config, err := readConfig(d.configFile(name))
	if err != nil {
		return err
	}
	// The saved state of a suspended image is that of another machine.
	if err := os.Remove(filepath.Join(d.machineDir(name), "state.vzvmsave")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the saved state of %s: %w", name, err)
	}
	if _, err := d.tart(ctx, setArgs(name, shape, config)...); err != nil {
		return fmt.Errorf("setting the shape of %s: %w", name, err)
	}
	return d.growDisk(ctx, name, shape.DiskBytes, config)
}

// growDisk makes the disk at least as big as wanted. A disk is never smaller than its
// file, but only a raw one is no bigger: tart is asked to grow any other, and says when
// it is bigger already. What get calls Disk is the file's length, too, up to tart 2.35.
func (d *Driver) growDisk(ctx context.Context, name string, wanted int64, c config) error {
	if wanted <= 0 {
		return nil
	}
	if disk, err := os.Stat(filepath.Join(d.machineDir(name), "disk.img")); err == nil && disk.Size() >= wanted {
		return nil
	}
	size := (wanted + gigabyte - 1) / gigabyte
	args := append([]string{"set", name, "--disk-size", fmt.Sprint(size)}, c.refit()...)
	if _, err := d.tart(ctx, args...); err != nil && !errors.Is(err, errBigger) {
		return fmt.Errorf("growing the disk of %s to %d GB: %w", name, size, err)
	}
	return nil
}

const (
	mebibyte = 1 << 20
	gigabyte = 1_000_000_000
)

// setArgs is the `tart set` command line for a shape and an identity of its own.
func setArgs(name string, shape vm.Shape, c config) []string {
	args := []string{"set", name, "--random-mac"}
	if c.macOS() {
		// Only a Mac has one.
		args = append(args, "--random-serial")
	}
	if shape.CPUs > 0 {
		args = append(args, "--cpu", fmt.Sprint(max(shape.CPUs, c.CPUCountMin)))
	}
	if shape.MemoryBytes > 0 {
		args = append(args, "--memory", fmt.Sprint(max(shape.MemoryBytes, c.MemorySizeMin)/mebibyte))
	}
	return append(args, c.refit()...)
}

// config is what we read of a machine's configuration.
type config struct {
	OS            string `json:"os"`
	CPUCountMin   int    `json:"cpuCountMin"`
	MemorySizeMin int64  `json:"memorySizeMin"`
	DisplayRefit  *bool  `json:"displayRefit"`
}

// macOS takes a machine that does not say for a Mac: those are counted.
func (c config) macOS() bool { return c.OS != "linux" }

// refit keeps the image's wish: without a flag for it tart forgets it.
func (c config) refit() []string {
	if c.DisplayRefit != nil && *c.DisplayRefit {
		return []string{"--display-refit"}
	}
	return nil
}

// maxConfig and maxManifest are far more than tart writes, in bytes. What a registry has
// given may be of any size.
const (
	maxConfig   = 1 << 20
	maxManifest = 8 << 20
)

// errTooLong is of a file that is not read, as it is too long.
var errTooLong = errors.New("it is not read")

// readAtMost reads a file that comes with an image, and refuses a longer one.
func readAtMost(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("%s is longer than %d bytes, as none of tart's is: %w", path, most, errTooLong)
	}
	return data, err
}

// readConfig reads that of a machine or of an image, which becomes that of its clones.
func readConfig(path string) (config, error) {
	data, err := readAtMost(path, maxConfig)
	if err != nil {
		return config{}, fmt.Errorf("reading a configuration: %w", err)
	}
	var c config
	if err := json.Unmarshal(data, &c); err != nil {
		return config{}, fmt.Errorf("parsing %s: %w", path, err)
	}
	return c, nil
}

// LeastMemory reads the image's configuration.
func (d *Driver) LeastMemory(_ context.Context, ref string) (int64, error) {
	link, err := d.imageLink(ref)
	if err != nil {
		return 0, err
	}
	c, err := readConfig(filepath.Join(link, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("image %s: %w", ref, vm.ErrNotFound)
	}
	return c.MemorySizeMin, err
}
