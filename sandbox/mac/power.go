package mac

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// Start turns the Mac on and returns when SSH answers. A Mac without a disk
// gets one from its options first. Starting a running Mac does nothing.
func (m *Mac) Start(ctx context.Context) error {
	m.power.Lock()
	defer m.power.Unlock()
	if m.current() != nil {
		return nil
	}
	if _, err := os.Stat(m.Root()); err != nil {
		if err := m.freshDisk(); err != nil {
			return err
		}
	}
	return m.boot(ctx)
}

// Stop cuts the power: when it returns, no process of the Mac is left. The
// disk stays for the next Start.
func (m *Mac) Stop(ctx context.Context) error {
	m.power.Lock()
	defer m.power.Unlock()
	return m.cut(ctx)
}

// Reboot cuts the power and boots again.
func (m *Mac) Reboot(ctx context.Context) error {
	m.power.Lock()
	defer m.power.Unlock()
	if err := m.cut(ctx); err != nil {
		return err
	}
	return m.boot(ctx)
}

// Erase is the start of a reinstallation: the power is cut, the disk wiped, and
// the Mac stays unreachable until Install.
func (m *Mac) Erase(ctx context.Context) error {
	m.power.Lock()
	defer m.power.Unlock()
	if err := m.cut(ctx); err != nil {
		return err
	}
	return m.wipe()
}

// Install puts a fresh system on the disk, whatever it held, and boots it. Host
// keys and everything else on the old disk are gone.
func (m *Mac) Install(ctx context.Context, i Install) error {
	m.power.Lock()
	defer m.power.Unlock()
	if err := m.cut(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	m.account.keys = i.AuthorizedKeys
	m.account.autoLogin = m.account.autoLogin || i.AutoLogin
	override(&m.account.username, i.Username)
	override(&m.account.password, i.Password)
	override(&m.facts.OSVersion, i.OSVersion)
	override(&m.facts.Build, i.Build)
	m.mu.Unlock()
	if err := m.freshDisk(); err != nil {
		return err
	}
	return m.boot(ctx)
}

func override(to *string, v string) {
	if v != "" {
		*to = v
	}
}

func (m *Mac) current() *running {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run
}

// boot starts pid 1 on the disk there is. The power lock is held.
func (m *Mac) boot(ctx context.Context) error {
	if err := emptyVolatile(m.Root()); err != nil {
		return fmt.Errorf("booting: %w", err)
	}
	if err := wait(ctx, m.bootTime()); err != nil {
		return fmt.Errorf("booting: %w", err)
	}
	run, err := startRunning(ctx, m, m.config())
	if err != nil {
		return fmt.Errorf("booting: %w", err)
	}
	m.mu.Lock()
	m.run = run
	m.mu.Unlock()
	go m.watch(run)
	return nil
}

// bootTime is how long nothing answers, in real time.
func (m *Mac) bootTime() time.Duration {
	c := m.config()
	return m.o.BootDelay + c.Scaled(c.Switches.Quirks.BootTakes)
}

func (m *Mac) config() wire.Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return wire.Config{
		Root: m.Root(), StateDir: m.stateDir(), TwinDir: m.twinDir(), Programs: m.o.Programs, GuestPrograms: m.o.GuestPrograms,
		Address: m.o.Address.String(), Port: m.o.SSHPort,
		Username: m.account.username, Password: m.account.password,
		BootSession: strings.ToUpper(uuid.NewString()), BootTime: time.Now(),
		Facts: m.facts, Shell: m.shell, TimeScale: m.o.TimeScale, LockAfter: m.o.LockAfter, FewWatches: m.o.FewWatches,
		Switches: m.switches, Beliefs: m.beliefs,
	}
}

// watch waits for a Mac that ends or restarts by itself.
func (m *Mac) watch(run *running) {
	select {
	case <-run.exited:
		m.forget(run)
	case kind := <-run.wishes:
		m.obeyWish(run, kind)
	}
}

// obeyWish cuts the power as the inside asked, and boots again for a reboot,
// unless somebody outside was faster.
func (m *Mac) obeyWish(run *running, kind wire.EventKind) {
	m.power.Lock()
	defer m.power.Unlock()
	if m.current() != run {
		return
	}
	ctx := context.Background()
	err := m.cut(ctx)
	if err == nil && kind == wire.EventReboot {
		err = m.boot(ctx)
	}
	if err != nil {
		m.o.Log("reboot: " + err.Error())
	}
}

// cut ends the running Mac, if there is one. The power lock is held.
func (m *Mac) cut(ctx context.Context) error {
	run := m.current()
	if run == nil {
		return nil
	}
	run.kill()
	select {
	case <-run.exited:
	case <-ctx.Done():
		return fmt.Errorf("cutting the power: %w", ctx.Err())
	}
	m.forget(run)
	return nil
}

func (m *Mac) forget(run *running) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == run {
		m.run = nil
	}
}

func (m *Mac) freshDisk() error {
	if err := m.wipe(); err != nil {
		return err
	}
	m.mu.Lock()
	a := m.account
	m.mu.Unlock()
	if err := plantTree(m.Root(), a); err != nil {
		return fmt.Errorf("installing: %w", err)
	}
	return nil
}

// wipe removes the disk and what was remembered about it.
func (m *Mac) wipe() error {
	for _, dir := range []string{m.Root(), m.stateDir()} {
		if err := removeAll(dir); err != nil {
			return fmt.Errorf("wiping: %w", err)
		}
	}
	if err := os.MkdirAll(m.stateDir(), 0o755); err != nil {
		return fmt.Errorf("wiping: %w", err)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RefusedError says that the kernel does not let this user make the namespaces
// a Mac lives in, and how to allow it.
type RefusedError struct {
	Err error
	// Remedy is one line for a person.
	Remedy string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the kernel refuses user namespaces (%v); %s", e.Err, e.Remedy)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// BootError is a Mac that could not come up, such as for a port that is taken
// (errors.Is with syscall.EADDRINUSE).
type BootError struct {
	Text string
	Err  error // nil when no system call failed
}

func (e *BootError) Error() string { return e.Text }

func (e *BootError) Unwrap() error { return e.Err }

var errGone = errors.New("pid 1 ended")
