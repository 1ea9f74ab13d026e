package macostest

import (
	"context"
	"maps"
	"slices"
)

// Power is the power management of a Mac in memory.
type Power struct {
	// Settings in force, by pmset's names.
	Settings map[string]string
	// Deaf settings are taken without complaint and not changed.
	Deaf []string
}

// newPower is what macOS installs on a desktop.
func newPower() Power {
	return Power{Settings: map[string]string{
		"sleep": "1", "displaysleep": "10", "disksleep": "10", "autorestart": "0", "womp": "1", "powernap": "1",
	}}
}

type power struct{ m *Mac }

func (p power) Settings(context.Context) (map[string]string, error) {
	return maps.Clone(p.m.Power.Settings), nil
}

func (p power) Set(_ context.Context, settings map[string]string) error {
	if err := p.m.change("pmset"); err != nil {
		return err
	}
	for name, value := range settings {
		if _, known := p.m.Power.Settings[name]; known && !slices.Contains(p.m.Power.Deaf, name) {
			p.m.Power.Settings[name] = value
		}
	}
	return nil
}
