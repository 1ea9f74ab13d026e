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
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Deadlines of tart commands that touch neither the network nor whole disks.
const (
	queryTimeout = 15 * time.Second
	// cloneTimeout covers a byte copy of a big image across volumes.
	cloneTimeout  = 30 * time.Minute
	deleteTimeout = 2 * time.Minute
)

// Options of a Driver. Path and Home must be set.
type Options struct {
	// Path of the tart executable.
	Path string
	// Home is TART_HOME.
	Home string
	// Environ of every tart process; nil means that of this process.
	Environ []string
	// QueryTimeout bounds what only asks: tart may hang on a sick volume. Default 15 s.
	QueryTimeout time.Duration
}

// Driver implements vm.Driver.
type Driver struct {
	path    string
	home    string
	environ []string
	query   time.Duration
	// unplug is what tart gets at least to stop a machine.
	unplug time.Duration
	// leftovers of pulls that ended early.
	leftovers *leftovers

	mu sync.Mutex
	// watches of the processes that hold machines, by number.
	watches map[int]<-chan struct{}
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
	if o.QueryTimeout <= 0 {
		o.QueryTimeout = queryTimeout
	}
	return &Driver{
		path: o.Path, home: o.Home, environ: environ, query: o.QueryTimeout, unplug: unplugLeast,
		leftovers: newLeftovers(o.Home),
	}
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
	ctx, cancel := context.WithTimeout(ctx, d.query)
	defer cancel()
	out, err := d.tart(ctx, "--version")
	if err != nil {
		return vm.Info{}, fmt.Errorf("asking tart for its version: %w", err)
	}
	version := oneLine(out)
	return vm.Info{Name: "tart", Version: version, Unknown: !known(version)}, nil
}

// The minor versions of tart 2 that were tried with this driver. The newest is not
// released yet: it is what follows 2.35.
const (
	oldestKnown = 30
	newestKnown = 36
)

func known(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	text, _, _ := strings.Cut(rest, ".")
	minor, err := strconv.Atoi(text)
	return err == nil && major == "2" && minor >= oldestKnown && minor <= newestKnown
}

// namePattern is what a machine may be called: never a way out of its directory, never
// an option of tart.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func checkName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%q is no name of a machine: %w", name, vm.ErrNotFound)
	}
	return nil
}

// RunCommand runs without a window; the process lives as long as the machine. tart
// splits a share at colons and commas, so that a path with one is refused.
func (d *Driver) RunCommand(name string, o vm.RunOptions) (vm.Command, error) {
	args := []string{"run", name, "--no-graphics"}
	for _, s := range o.Shares {
		if !vm.Shareable(s.Path) {
			return vm.Command{}, &vm.ShareError{Share: s}
		}
		dir := s.Name + ":" + s.Path
		if s.ReadOnly {
			dir += ":ro"
		}
		args = append(args, "--dir", dir)
	}
	return vm.Command{Path: d.path, Args: args, Env: d.environ}, nil
}

// GuestSocket is tart's control socket.
func (d *Driver) GuestSocket(name string) string {
	return filepath.Join(d.machineDir(name), "control.sock")
}

// RemoveImage deletes a name from tart's cache. Who does that needs room, so that what
// ended pulls left goes, too.
func (d *Driver) RemoveImage(ctx context.Context, name string) error {
	if _, err := d.imageLink(name); err != nil {
		return err
	}
	d.leftovers.removeAll()
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if _, err := d.tart(ctx, "delete", name); err != nil && !errors.Is(err, vm.ErrNotFound) {
		return fmt.Errorf("deleting image %s: %w", name, err)
	}
	return nil
}

// RemoveLeftovers leaves those of pulls that run.
func (d *Driver) RemoveLeftovers() { d.leftovers.removeAll() }

// Delete removes a machine that does not run.
func (d *Driver) Delete(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
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
	_, err = d.tart(ctx, "delete", name)
	switch {
	case err == nil || errors.Is(err, vm.ErrNotFound):
		return nil
	case errors.Is(err, vm.ErrNoSpace):
		// To delete a machine over layers tart writes first. It does not run: just seen.
		return d.removeRemains(name)
	}
	return fmt.Errorf("deleting %s: %w", name, err)
}

// removeRemains removes a directory that tart no longer takes for a machine.
func (d *Driver) removeRemains(name string) error {
	if err := os.RemoveAll(d.machineDir(name)); err != nil {
		return fmt.Errorf("removing what is left of %s: %w", name, err)
	}
	return nil
}

func (d *Driver) machineDir(name string) string { return filepath.Join(d.home, "vms", name) }
