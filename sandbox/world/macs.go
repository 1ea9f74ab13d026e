package world

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"

	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// macs are the simulated Macs behind the vendor's servers: it is the hardware that
// the vendor drives.
type macs struct {
	programs string
	dir      string
	sshPort  int
	twins    map[string]string
	// guestPrograms are what guests have beside the programs of this machine.
	guestPrograms []string
	log           *slog.Logger

	mu   sync.Mutex
	byID map[string]*mac.Mac
}

var (
	_ scaleway.Hardware = (*macs)(nil)
	_ scaleway.Powered  = (*macs)(nil)
)

// Install gives a server a fresh system; the first time it gives it a Mac.
func (m *macs) Install(ctx context.Context, install scaleway.Install) error {
	machine, err := m.of(install)
	if err != nil {
		return err
	}
	return machine.Install(ctx, mac.Install{
		OSVersion:      install.OS.Version,
		Username:       install.Username,
		Password:       install.Password,
		AuthorizedKeys: install.AuthorizedKeys,
	})
}

// of returns the server's Mac, made and started at the first call.
func (m *macs) of(install scaleway.Install) (*mac.Mac, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if machine, found := m.byID[install.ServerID]; found {
		return machine, nil
	}
	machine, err := mac.New(mac.Options{
		Programs:      m.programs,
		Dir:           filepath.Join(m.dir, install.ServerID[:8]),
		Address:       install.IP,
		SSHPort:       m.sshPort,
		Twins:         m.twins,
		GuestPrograms: m.guestPrograms,
		// A sandbox may have hundreds of Macs, and others on the machine need some.
		FewWatches: true,
		Facts:      factsOf(install),
	})
	if err != nil {
		return nil, err
	}
	m.byID[install.ServerID] = machine
	return machine, nil
}

// factsOf is what a Mac says of itself. Its memory is more than the vendor says: what
// both call 16 GB are 16 GB to the vendor, and 16 GiB to the Mac.
func factsOf(install scaleway.Install) mac.Facts {
	const gigabyte, gibibyte = 1_000_000_000, 1 << 30
	return mac.Facts{
		Model:       "Mac14,12",
		Serial:      "SIM" + install.ServerID[:8],
		CPUs:        install.Type.Cores,
		MemoryBytes: uint64(install.Type.MemoryBytes) / gigabyte * gibibyte,
		DiskBytes:   uint64(install.Type.DiskBytes),
	}
}

// addTwin makes another build of the agent run, on Macs there are and will be.
func (m *macs) addTwin(hash, path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	twins := maps.Clone(m.twins)
	twins[hash] = path
	m.twins = twins
	for id, machine := range m.byID {
		if err := machine.AddTwin(hash, path); err != nil {
			return fmt.Errorf("server %s: %w", id, err)
		}
	}
	return nil
}

func (m *macs) get(id string) (*mac.Mac, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	machine, found := m.byID[id]
	return machine, found
}

// Erase wipes the disk; the Mac is away until it is installed again.
func (m *macs) Erase(ctx context.Context, id string) {
	if machine, found := m.get(id); found {
		m.report(id, "erasing", machine.Erase(ctx))
	}
}

// Reboot cuts the power.
func (m *macs) Reboot(ctx context.Context, id string, _ []string) {
	if machine, found := m.get(id); found {
		m.report(id, "rebooting", machine.Reboot(ctx))
	}
}

// Power turns a Mac on or off; it keeps its disk.
func (m *macs) Power(ctx context.Context, id string, on bool) (bool, error) {
	machine, found := m.get(id)
	switch {
	case !found:
		return false, nil
	case on:
		return true, machine.Start(ctx)
	}
	return true, machine.Stop(ctx)
}

// Remove takes the Mac of a deleted server away.
func (m *macs) Remove(ctx context.Context, id string) {
	m.mu.Lock()
	machine, found := m.byID[id]
	delete(m.byID, id)
	m.mu.Unlock()
	if found {
		m.report(id, "removing", machine.Stop(ctx))
	}
}

// report logs what a vendor could not tell its customer either.
func (m *macs) report(id, doing string, err error) {
	if err != nil {
		m.log.Error("simulated Mac failed", "doing", doing, "server", id, "error", err)
	}
}

// stop stops every Mac.
func (m *macs) stop(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for id, machine := range m.byID {
		if err := machine.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stopping the Mac of server %s: %w", id, err))
		}
	}
	clear(m.byID)
	return errors.Join(errs...)
}
