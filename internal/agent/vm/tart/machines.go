package tart

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Machines scans TART_HOME. It spawns nothing: `tart list` may hang on a sick
// volume, while the lock that marks a running machine can be read for free.
func (d *Driver) Machines(context.Context) ([]vm.Machine, error) {
	entries, err := os.ReadDir(filepath.Join(d.home, "vms"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var machines []vm.Machine
	for _, e := range entries {
		m, err := d.machine(e.Name())
		if err != nil {
			// A file of root's, say, of a machine that is none of our business.
			m = vm.Machine{Name: e.Name(), Running: true, MacOS: true, Unseen: err}
		}
		machines = append(machines, m)
	}
	return machines, nil
}

// Machine looks at one machine.
func (d *Driver) Machine(_ context.Context, name string) (vm.Machine, error) {
	if err := checkName(name); err != nil {
		return vm.Machine{}, err
	}
	if _, err := os.Stat(d.configFile(name)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return vm.Machine{}, fmt.Errorf("machine %s: %w", name, vm.ErrNotFound)
		}
		return vm.Machine{}, fmt.Errorf("looking at machine %s: %w", name, err)
	}
	return d.machine(name)
}

// machine takes one whose configuration cannot be read for a Mac, as one that does not say
// what it is: too many are counted rather than too few.
func (d *Driver) machine(name string) (vm.Machine, error) {
	pid, err := d.holder(name)
	if err != nil {
		return vm.Machine{}, err
	}
	config, _ := readConfig(d.configFile(name))
	return vm.Machine{Name: name, Running: pid != 0, Powered: pid != 0 && d.powered(name), MacOS: config.macOS()}, nil
}

// powered: tart opens the control socket of a clone after the guest's start, which is
// after it took the lock. It may run a guest without one.
func (d *Driver) powered(name string) bool {
	_, err := os.Lstat(d.GuestSocket(name))
	return err == nil
}

func (d *Driver) configFile(name string) string {
	return filepath.Join(d.machineDir(name), "config.json")
}

// holder returns the process that runs the machine, 0 when none does. `tart run`
// holds a POSIX write lock on config.json for its whole life. This process must
// never hold such a lock itself, as closing the file here would drop it. To ask for
// the lock takes no right to write.
func (d *Driver) holder(name string) (int, error) {
	f, err := os.OpenFile(d.configFile(name), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("looking who runs %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil {
		return 0, fmt.Errorf("looking who runs %s: %w", name, err)
	}
	if lock.Type == unix.F_UNLCK {
		return 0, nil
	}
	if lock.Pid <= 0 {
		return 0, fmt.Errorf("looking who runs %s: a process that the kernel does not name: %w", name, vm.ErrRunning)
	}
	return int(lock.Pid), nil
}
