package converge

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
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
func awakePreferences() preferences {
	return preferences{
		{screensaverDomain, "idleTime", 0},
		{screensaverDomain, "askForPassword", 0},
		{globalDomain, "com.apple.autologout.AutoLogOutDelay", 0},
	}
}

// power keeps the Mac awake, and has it come back after a power cut.
type power struct{ *step.Env }

func (p power) step() step.Step {
	return step.Step{
		Name:  "power",
		About: "Sets the Mac to never sleep, to start again after a power cut and to wake for the network (`pmset`), and turns off the screen saver's lock and the automatic log-out.",
		Undo:  "Set what you want in System Settings under Energy, or run `sudo pmset -a sleep 1 displaysleep 10 disksleep 10 autorestart 0`.",
		Check: func(ctx context.Context) ([]string, error) {
			all, err := PowerDiffers(ctx, p.Mac.Power)
			if err != nil {
				return nil, err
			}
			unset, err := awakePreferences().differ(ctx, p.Mac.Defaults)
			return append(all, unset...), err
		},
		Act: func(ctx context.Context) error {
			if err := p.Mac.Power.Set(ctx, wantedPower()); err != nil {
				return fmt.Errorf("setting the power management: %w", err)
			}
			return awakePreferences().write(ctx, p.Mac.Defaults)
		},
		Prove: p.provePower,
	}
}

// PowerDiffers lists the settings that differ. One that this model of Mac does not
// have is none, except sleep.
func PowerDiffers(ctx context.Context, of macos.Power) ([]string, error) {
	got, err := of.Settings(ctx)
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
func (p power) provePower(ctx context.Context) error {
	got, err := p.Mac.Power.Settings(ctx)
	if err != nil {
		return fmt.Errorf("reading the power management: %w", err)
	}
	if got[sleepSetting] != "0" {
		return step.Fail(document.Human, "the Mac still sleeps after %.16q minutes: pmset refuses, look whether a configuration profile sets it", got[sleepSetting])
	}
	return nil
}
