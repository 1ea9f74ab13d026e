// Package tart drives the tart command line, an external program that the host
// has and we do not ship. Text and files of tart are read here and nowhere else;
// what is returned are the words of package vm. Running a machine is left to the
// caller: RunCommand says what to execute.
package tart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Deadlines of tart commands that touch neither the network nor whole disks.
const (
	probeTimeout = 15 * time.Second
	listTimeout  = 15 * time.Second
	// cloneTimeout covers a byte copy of a big image across volumes.
	cloneTimeout  = 30 * time.Minute
	deleteTimeout = 2 * time.Minute
	// stopSlack is what `tart stop` may need beyond its own timeout.
	stopSlack = 5 * time.Second
)

// Options of a Driver. Path and Home must be set.
type Options struct {
	// Path of the tart executable.
	Path string
	// Home is TART_HOME.
	Home string
	// Environ of every tart process; nil means that of this process.
	Environ []string
}

// Driver implements vm.Driver.
type Driver struct {
	path    string
	home    string
	environ []string

	// creating makes Create's look and clone one step, as tart itself replaces
	// without asking.
	creating sync.Mutex
}

var _ vm.Driver = (*Driver)(nil)

// New returns a driver; Probe tells whether it works.
func New(o Options) *Driver {
	environ := o.Environ
	if environ == nil {
		environ = os.Environ()
	}
	// Without TART_NO_AUTO_PRUNE tart evicts cached images behind our back.
	environ = append(append([]string(nil), environ...), "TART_HOME="+o.Home, "TART_NO_AUTO_PRUNE=1")
	return &Driver{path: o.Path, home: o.Home, environ: environ}
}

// Find returns the tart executable: the wanted path, or the first of the usual
// places. The error names where it looked.
func Find(wanted string) (string, error) {
	if wanted != "" {
		return wanted, executable(wanted)
	}
	places := []string{"/usr/local/bin/tart", "/opt/homebrew/bin/tart"}
	for _, p := range places {
		if executable(p) == nil {
			return p, nil
		}
	}
	if p, err := exec.LookPath("tart"); err == nil {
		return p, nil
	}
	return "", fmt.Errorf("looking for tart in %s and PATH: %w", strings.Join(places, ", "), vm.ErrUnusable)
}

func executable(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("looking for tart: %w: %w", vm.ErrUnusable, err)
	}
	if st.IsDir() || st.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is not executable: %w", path, vm.ErrUnusable)
	}
	return nil
}

// Probe asks tart for its version.
func (d *Driver) Probe(ctx context.Context) (vm.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out, err := d.tart(ctx, "--version")
	if err != nil {
		return vm.Info{}, fmt.Errorf("asking tart for its version: %w", err)
	}
	return vm.Info{Name: "tart", Version: strings.TrimSpace(out)}, nil
}

// Pull runs `tart pull`, which does nothing when the digest is already here.
func (d *Driver) Pull(ctx context.Context, ref string, _ vm.PullOptions) (string, error) {
	if _, err := d.imageLink(ref); err != nil {
		return "", err
	}
	if _, err := d.tart(ctx, "pull", ref); err != nil {
		return "", fmt.Errorf("pulling %s: %w", ref, err)
	}
	return d.Digest(ctx, ref)
}

// Create clones and then sets the shape; a clone whose shape cannot be set is
// deleted again.
func (d *Driver) Create(ctx context.Context, name, ref string, shape vm.Shape) error {
	ctx, cancel := context.WithTimeout(ctx, cloneTimeout)
	defer cancel()
	if err := d.clone(ctx, name, ref); err != nil {
		return err
	}
	if err := d.reshape(ctx, name, shape); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
		defer cancel()
		return errors.Join(err, d.Delete(cleanup, name))
	}
	return nil
}

func (d *Driver) clone(ctx context.Context, name, ref string) error {
	d.creating.Lock()
	defer d.creating.Unlock()
	if _, err := os.Lstat(d.machineDir(name)); err == nil {
		return fmt.Errorf("cloning %s: %w", name, vm.ErrExists)
	}
	if _, err := d.tart(ctx, "clone", ref, name); err != nil {
		return fmt.Errorf("cloning %s to %s: %w", ref, name, err)
	}
	return nil
}

func (d *Driver) reshape(ctx context.Context, name string, shape vm.Shape) error {
	least, err := d.minimum(name)
	if err != nil {
		return err
	}
	args := setArgs(name, shape, least)
	if len(args) == 0 {
		return nil
	}
	if _, err := d.tart(ctx, args...); err != nil {
		return fmt.Errorf("setting CPU and memory of %s: %w", name, err)
	}
	return nil
}

// setArgs is the `tart set` command line for a shape, nil when there is nothing
// to set.
func setArgs(name string, shape, least vm.Shape) []string {
	const mebibyte = 1 << 20
	var flags []string
	if shape.CPUs > 0 {
		flags = append(flags, "--cpu", fmt.Sprint(max(shape.CPUs, least.CPUs)))
	}
	if shape.MemoryBytes > 0 {
		flags = append(flags, "--memory", fmt.Sprint(max(shape.MemoryBytes, least.MemoryBytes)/mebibyte))
	}
	if flags == nil {
		return nil
	}
	return append([]string{"set", name}, flags...)
}

// RunCommand runs without a window; the process lives as long as the machine.
func (d *Driver) RunCommand(name string, o vm.RunOptions) vm.Command {
	args := []string{"run", name, "--no-graphics"}
	for _, s := range o.Shares {
		dir := s.Name + ":" + s.Path
		if s.ReadOnly {
			dir += ":ro"
		}
		args = append(args, "--dir", dir)
	}
	return vm.Command{Path: d.path, Args: args, Env: d.environ}
}

// GuestSocket is tart's control socket.
func (d *Driver) GuestSocket(name string) string {
	return filepath.Join(d.machineDir(name), "control.sock")
}

// RemoveImage deletes a name from tart's cache.
func (d *Driver) RemoveImage(ctx context.Context, name string) error {
	if _, err := d.imageLink(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if _, err := d.tart(ctx, "delete", name); err != nil && !errors.Is(err, vm.ErrNotFound) {
		return fmt.Errorf("deleting image %s: %w", name, err)
	}
	return nil
}

// Wait looks at the lock.
func (d *Driver) Wait(ctx context.Context, name string) error {
	for {
		pid, err := d.holder(name)
		if err != nil || pid == 0 {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// Stop asks tart to stop the machine, and kills the process that holds it when
// tart could not.
func (d *Driver) Stop(ctx context.Context, name string, grace time.Duration) error {
	pid, err := d.holder(name)
	if err != nil || pid == 0 {
		return err
	}
	seconds := max(1, int((grace+time.Second-1)/time.Second))
	stopping, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+stopSlack)
	defer cancel()
	_, stopErr := d.tart(stopping, "stop", name, "-t", fmt.Sprint(seconds))
	if stopErr != nil {
		stopErr = fmt.Errorf("stopping %s: %w", name, stopErr)
	}
	return d.killHolder(ctx, name, stopErr)
}

// Delete removes a machine that does not run.
func (d *Driver) Delete(ctx context.Context, name string) error {
	m, err := d.Machine(ctx, name)
	if errors.Is(err, vm.ErrNotFound) {
		return d.removeRemains(name)
	}
	if err != nil {
		return err
	}
	if m.Running {
		return fmt.Errorf("deleting %s: %w", name, vm.ErrRunning)
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if _, err := d.tart(ctx, "delete", name); err != nil && !errors.Is(err, vm.ErrNotFound) {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}

// removeRemains removes a directory that tart no longer takes for a machine.
func (d *Driver) removeRemains(name string) error {
	if err := os.RemoveAll(d.machineDir(name)); err != nil {
		return fmt.Errorf("removing what is left of %s: %w", name, err)
	}
	return nil
}

func (d *Driver) machineDir(name string) string { return filepath.Join(d.home, "vms", name) }
