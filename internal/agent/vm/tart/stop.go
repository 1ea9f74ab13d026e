package tart

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/guest"
)

const (
	// killWait bounds the wait for a killed process to give up the machine.
	killWait = 10 * time.Second
	// unplugMost is the most of a grace that is kept for tart to stop the machine
	// after the guest did not.
	unplugMost = 5 * time.Second
	// unplugLeast is what tart gets even without a grace.
	unplugLeast = 500 * time.Millisecond
	// firstSignal is the first exit code that tells of a signal.
	firstSignal = 129
	// recheck is how long to wait before looking again at a lock whose holder is gone.
	recheck = 10 * time.Millisecond
)

// shutdown has the guest shut itself down. It is looked up where macOS and Linux have
// it, also by an agent whose PATH is short.
const shutdown = `PATH=$PATH:/sbin:/usr/sbin
if [ "$(id -u)" = 0 ]; then exec shutdown -h now; fi
exec sudo -n shutdown -h now`

// Wait watches the process that holds the machine.
func (d *Driver) Wait(ctx context.Context, name string) error {
	for {
		pid, err := d.holder(name)
		if err != nil || pid == 0 {
			return err
		}
		ended, err := d.watch(pid)
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", name, err)
		}
		// The number may be another process's by now.
		if again, err := d.holder(name); err != nil || again != pid {
			if err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
		}
		if again, _ := d.holder(name); again == pid {
			pause(ctx, recheck)
		}
	}
}

// watch shares one watch of a process among all who wait for it.
func (d *Driver) watch(pid int) (<-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ended, ok := d.watches[pid]; ok {
		return ended, nil
	}
	ended, err := hostos.ProcessGone(pid)
	if err != nil {
		return nil, err
	}
	if d.watches == nil {
		d.watches = map[int]<-chan struct{}{}
	}
	d.watches[pid] = ended
	go func() {
		<-ended
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watches, pid)
	}()
	return ended, nil
}

// Stop has the guest shut down, then tart stop the machine, and kills the process
// that holds it in the end. `tart stop` would only pull the plug.
func (d *Driver) Stop(ctx context.Context, name string, grace time.Duration) error {
	if pid, err := d.holder(name); err != nil || pid == 0 {
		return err
	}
	unplug := min(grace/5, unplugMost)
	gone, err := d.within(ctx, name, grace-unplug, d.shutDownGuest)
	if gone || err != nil {
		return err
	}
	gone, err = d.within(ctx, name, max(unplug, d.unplug), func(ctx context.Context, name string) error {
		if err := d.signal(name, syscall.SIGINT); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	if gone || err != nil {
		return err
	}
	return d.kill(ctx, name)
}

// within tries one way to end a machine, and reports whether it ended within the
// time. A way that fails is given up at once.
func (d *Driver) within(ctx context.Context, name string, most time.Duration, way func(context.Context, string) error) (bool, error) {
	if most <= 0 {
		return false, nil
	}
	trying, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	go func() {
		if way(trying, name) != nil {
			cancel()
		}
	}()
	err := d.Wait(trying, name)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, fmt.Errorf("stopping %s: %w", name, context.Cause(ctx))
	case trying.Err() != nil:
		return false, nil
	}
	return false, fmt.Errorf("stopping %s: %w", name, err)
}

// shutDownGuest asks the guest, and waits for the end of ctx when it agreed. A
// connection that broke, or a command that was killed, is what a guest going down
// looks like.
func (d *Driver) shutDownGuest(ctx context.Context, name string) error {
	client := guest.Dial(d.GuestSocket(name), guest.Options{})
	defer func() { _ = client.Close() }()
	code, err := client.Exec(ctx, vm.GuestCommand{Argv: []string{"/bin/sh", "-c", shutdown}}, vm.Streams{})
	switch {
	case err != nil && !errors.Is(err, vm.ErrLost):
		return err
	case code != 0 && code < firstSignal:
		return fmt.Errorf("the guest's shutdown exited with %d", code)
	}
	<-ctx.Done()
	return nil
}

// signal reaches whoever holds the machine now.
func (d *Driver) signal(name string, s syscall.Signal) error {
	pid, err := d.holder(name)
	if err != nil || pid == 0 {
		return err
	}
	if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %v to process %d that runs %s: %w", s, pid, name, err)
	}
	return nil
}

// kill kills whoever still runs the machine, and waits for it to go.
func (d *Driver) kill(ctx context.Context, name string) error {
	if err := d.signal(name, syscall.SIGKILL); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	err := d.Wait(waiting, name)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return fmt.Errorf("%s still runs %v after SIGKILL: %w", name, killWait, vm.ErrRunning)
	}
	if err != nil {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
