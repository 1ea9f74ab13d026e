package tart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// attend waits for the guest to end, or for a signal to end it.
func (c runner) attend(m *machine, signals <-chan os.Signal) error {
	deaf, err := c.plan.fires(RunIgnoresStop, m.names)
	if err != nil {
		return err
	}
	running, err := c.whenItRuns(m)
	if err != nil {
		return err
	}
	for {
		select {
		case how := <-m.guest.ended:
			return c.guestEnded(m, how)
		case fault := <-running:
			running = nil
			if over, err := c.strike(m, fault); over {
				return err
			}
		case s := <-signals:
			switch {
			case s == syscall.SIGUSR2 && m.os == osLinux:
				m.guest.askToStop()
			case s == syscall.SIGUSR1:
				return c.save(m)
			case s == syscall.SIGINT && !deaf:
				c.printf("Stopping VM...\n")
				m.cut()
				return nil
			}
		}
	}
}

// cut pulls the plug and waits until nothing of the guest is left.
func (m *machine) cut() {
	m.guest.cutPower()
	<-m.guest.ended //nolint:errcheck // however it ended, it was told to
}

// whenItRuns arms the fault, if there is one, that strikes a guest which has come up.
func (c runner) whenItRuns(m *machine) (<-chan FaultKind, error) {
	for _, f := range c.plan.Faults {
		hit := false
		var err error
		switch f.Kind { // all others strike elsewhere
		case RunKilled:
			if f.Step == "running" {
				hit = matches(m.names, f.Name)
			}
		case SoftnetDies:
			if m.options.softnet {
				hit, err = c.plan.fires(f.Kind, m.names)
			}
		case NetworkLost:
			hit, err = c.plan.fires(f.Kind, m.names)
		}
		if err != nil {
			return nil, err
		}
		if !hit {
			continue
		}
		struck := make(chan FaultKind, 1)
		go func() {
			state := filepath.Join("guest", "state")
			for data := []byte{}; string(data) != "running\n"; data, _ = m.dir.ReadFile(state) {
				time.Sleep(shutdownPoll)
			}
			struck <- f.Kind
		}()
		return struck, nil
	}
	return nil, nil
}

// strike is what a fault does to a running guest, and whether run is over.
func (c runner) strike(m *machine, kind FaultKind) (over bool, err error) {
	switch kind { // only these are armed
	case SoftnetDies:
		m.cut()
		return true, runtimeError("Softnet process terminated prematurely")
	case NetworkLost:
		c.printf("virtual machine's network attachment network.0 has been disconnected with error: The network connection was lost.\n")
		m.cut()
		return true, nil
	}
	return false, c.plan.killed(m.names, "running")
}

// guestEnded reports an end the guest brought about; even a crash is a success to run.
func (c runner) guestEnded(m *machine, how error) error {
	if err := m.guest.broken(how); err != nil {
		return err
	}
	if how != nil {
		c.printf("guest has stopped the virtual machine due to error: %v\n", how)
		return nil
	}
	c.printf("guest has stopped the virtual machine\n")
	leaks, err := c.plan.fires(SlotLeak, m.names)
	if err != nil || !leaks || m.slot == nil {
		return err
	}
	return m.slot.leak()
}

// errNotSuspendable is the framework's answer for a machine with devices that it cannot
// save.
var errNotSuspendable = errors.New(`VZErrorDomain Code=10 "The virtual machine's configuration does not support save and restore."`)

// save pauses the guest, writes its state beside its disk and ends run. A machine that
// was not started with --suspendable, or a Linux guest, cannot be saved.
func (c runner) save(m *machine) error {
	c.printf("pausing VM to take a snapshot...\n")
	if !m.options.suspendable || m.os == osLinux {
		m.cut()
		return errNotSuspendable
	}
	c.printf("creating a snapshot...\n")
	if err := m.dir.WriteFile("state.vzvmsave", []byte("saved\n"), 0o600); err != nil {
		return fmt.Errorf("saving the state: %w", err)
	}
	c.printf("snapshot created successfully! shutting down the VM...\n")
	m.cut()
	return nil
}
