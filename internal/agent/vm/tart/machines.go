package tart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// killWait bounds the wait for a killed process to give up the machine.
const killWait = 10 * time.Second

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
		pid, err := d.holder(e.Name())
		if err != nil {
			return nil, err
		}
		machines = append(machines, vm.Machine{Name: e.Name(), Running: pid != 0})
	}
	return machines, nil
}

// Machine looks at one machine.
func (d *Driver) Machine(_ context.Context, name string) (vm.Machine, error) {
	if _, err := os.Stat(d.configFile(name)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return vm.Machine{}, fmt.Errorf("machine %s: %w", name, vm.ErrNotFound)
		}
		return vm.Machine{}, fmt.Errorf("looking at machine %s: %w", name, err)
	}
	pid, err := d.holder(name)
	return vm.Machine{Name: name, Running: pid != 0}, err
}

func (d *Driver) configFile(name string) string {
	return filepath.Join(d.machineDir(name), "config.json")
}

// holder returns the process that runs the machine, 0 when none does. `tart run`
// holds a POSIX write lock on config.json for its whole life. This process must
// never hold such a lock itself, as closing the file here would drop it.
func (d *Driver) holder(name string) (int, error) {
	f, err := os.OpenFile(d.configFile(name), os.O_RDWR, 0)
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
	return int(lock.Pid), nil
}

// killHolder kills whoever still runs the machine, and waits for it to go.
func (d *Driver) killHolder(ctx context.Context, name string, cause error) error {
	deadline := time.Now().Add(killWait)
	for {
		pid, err := d.holder(name)
		if err != nil || pid == 0 {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(cause, context.Cause(ctx))
		}
		if time.Now().After(deadline) {
			return errors.Join(cause, fmt.Errorf("process %d still runs %s after SIGKILL: %w", pid, name, vm.ErrRunning))
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return errors.Join(cause, fmt.Errorf("killing process %d that runs %s: %w", pid, name, err))
		}
		pause(ctx, 20*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// minimum reads the least shape that the image allows.
func (d *Driver) minimum(name string) (vm.Shape, error) {
	data, err := os.ReadFile(d.configFile(name))
	if err != nil {
		return vm.Shape{}, fmt.Errorf("reading the configuration of %s: %w", name, err)
	}
	var config struct {
		CPUCountMin   int   `json:"cpuCountMin"`
		MemorySizeMin int64 `json:"memorySizeMin"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return vm.Shape{}, fmt.Errorf("parsing the configuration of %s: %w", name, err)
	}
	return vm.Shape{CPUs: config.CPUCountMin, MemoryBytes: config.MemorySizeMin}, nil
}
