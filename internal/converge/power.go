package converge

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/macfleet/macfleet/internal/converge/document"
)

const (
	screensaverDomain = "/Library/Preferences/com.apple.screensaver"
	globalDomain      = "/Library/Preferences/.GlobalPreferences"
	// sleepSetting is the one that must hold: a Mac asleep is gone.
	sleepSetting = "sleep"
)

// wantedPower are pmset's settings; 0 minutes is never.
func wantedPower() map[string]string {
	return map[string]string{
		sleepSetting: "0", "displaysleep": "0", "disksleep": "0",
		"autorestart": "1", "womp": "1", "powernap": "0",
	}
}

// awakePreferences keep the session from being locked or ended when nobody types.
func awakePreferences() []preference {
	return []preference{
		{screensaverDomain, "idleTime", 0},
		{screensaverDomain, "askForPassword", 0},
		{globalDomain, "com.apple.autologout.AutoLogOutDelay", 0},
	}
}

// power keeps the Mac awake, and has it come back after a power cut.
func (t *target) power() step {
	return step{
		name:  "power",
		about: "Sets the Mac to never sleep, to start again after a power cut and to wake for the network (`pmset`), and turns off the screen saver's lock and the automatic log-out.",
		undo:  "Set what you want in System Settings under Energy, or run `sudo pmset -a sleep 1 displaysleep 10 disksleep 10 autorestart 0`.",
		check: func(ctx context.Context) ([]string, error) {
			all, err := t.powerDiffers(ctx)
			if err != nil {
				return nil, err
			}
			unset, err := t.unset(ctx, awakePreferences())
			return append(all, unset...), err
		},
		act: func(ctx context.Context) error {
			if err := t.Mac.Power.Set(ctx, wantedPower()); err != nil {
				return fmt.Errorf("setting the power management: %w", err)
			}
			return t.set(ctx, awakePreferences())
		},
		prove: t.provePower,
	}
}

// powerDiffers lists the settings that differ. One that this model of Mac does not
// have is none, except sleep.
func (t *target) powerDiffers(ctx context.Context) ([]string, error) {
	got, err := t.Mac.Power.Settings(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the power management: %w", err)
	}
	var all []string
	wanted := wantedPower()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		value, known := got[name]
		if value != wanted[name] && (known || name == sleepSetting) {
			all = append(all, fmt.Sprintf("%s is %.16q", name, value))
		}
	}
	return all, nil
}

// provePower holds the step to sleep alone: what else a Mac refuses costs comfort.
func (t *target) provePower(ctx context.Context) error {
	got, err := t.Mac.Power.Settings(ctx)
	if err != nil {
		return fmt.Errorf("reading the power management: %w", err)
	}
	if got[sleepSetting] != "0" {
		return fail(document.Human, "the Mac still sleeps after %.16q minutes: pmset refuses, look whether a configuration profile sets it", got[sleepSetting])
	}
	return nil
}
