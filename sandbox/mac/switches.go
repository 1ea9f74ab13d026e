package mac

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/macfleet/macfleet/sandbox/mac/launchd"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// Switches set what is uncertain of a Mac, or wrong with it.
type Switches = wire.Switches

// Door is what can be wrong with a Mac's SSH port.
type Door = wire.Door

// LockStep is one rule of the account's lockout.
type LockStep = wire.LockStep

// JobFault makes launchd misbehave with one job.
type JobFault = wire.JobFault

// FullDisk makes the disk below a folder full.
type FullDisk = wire.FullDisk

// SetSwitches turns all switches, now and for the boots to come.
func (m *Mac) SetSwitches(ctx context.Context, s Switches) error {
	m.mu.Lock()
	m.switches = s
	m.mu.Unlock()
	err := m.inject(ctx, wire.Order{Switches: &s})
	if errors.Is(err, ErrOff) {
		return nil
	}
	return err
}

// ArmJobFault makes launchd of the running Mac misbehave; a reboot disarms it.
func (m *Mac) ArmJobFault(ctx context.Context, f JobFault) error {
	return m.inject(ctx, wire.Order{JobFault: &f})
}

// FillDisk makes a folder of the running Mac full, or undoes that. It covers
// what shims and programs write by path, not what they already have open; a
// reboot undoes it and loses what was written meanwhile.
func (m *Mac) FillDisk(ctx context.Context, f FullDisk) error {
	return m.inject(ctx, wire.Order{FullDisk: &f})
}

// inject has pid 1 carry out an order that may fail.
func (m *Mac) inject(ctx context.Context, o wire.Order) error {
	run := m.current()
	if run == nil {
		return ErrOff
	}
	outcome, err := run.ask(ctx, o)
	if err == nil && outcome.Text != "" {
		err = errors.New(outcome.Text)
	}
	return err
}

// Registrations are what background task management has on record.
type Registrations = launchd.Registrations

// Registrations returns what background task management has on record. A
// property list that just appeared takes a moment to be seen.
func (m *Mac) Registrations() (Registrations, error) {
	m.settle()
	var doc struct {
		Registrations Registrations `json:"registrations"`
	}
	data, err := os.ReadFile(filepath.Join(m.stateDir(), wire.StateFile))
	if errors.Is(err, os.ErrNotExist) {
		return Registrations{}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		return Registrations{}, fmt.Errorf("reading the state document: %w", err)
	}
	return doc.Registrations, nil
}
