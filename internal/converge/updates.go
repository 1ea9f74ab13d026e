package converge

import (
	"context"

	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const (
	softwareUpdateDomain = "/Library/Preferences/com.apple.SoftwareUpdate"
	appStoreDomain       = "/Library/Preferences/com.apple.commerce"
	setupAssistantDomain = "/Library/Preferences/com.apple.SetupAssistant.managed"
)

// wantedUpdates let macOS look for updates and fetch its data files (malware
// definitions), and nothing that restarts the Mac. The assistant's panes after an
// update hold up the session that guests need, so all of them are skipped.
func wantedUpdates() preferences {
	wanted := append(preferences{
		{softwareUpdateDomain, "AutomaticCheckEnabled", true},
		{softwareUpdateDomain, "ConfigDataInstall", true},
	}, installers()...)
	for _, pane := range []string{
		"SkipCloudSetup", "SkipiCloudStorageSetup", "SkipSiriSetup", "SkipPrivacySetup", "SkipScreenTime",
		"SkipAppearance", "SkipTrueTone", "SkipTouchIDSetup", "SkipAccessibility", "SkipUnlockWithWatch",
		"SkipTermsOfAddress", "SkipIntelligenceSetup", "SkipFirstLoginOptimization",
	} {
		wanted = append(wanted, preference{setupAssistantDomain, pane, true})
	}
	return wanted
}

// installers are what restarts the Mac, or changes it by itself.
func installers() preferences {
	return preferences{
		{softwareUpdateDomain, "AutomaticDownload", false},
		{softwareUpdateDomain, "AutomaticallyInstallMacOSUpdates", false},
		{softwareUpdateDomain, "CriticalUpdateInstall", false},
		// Background Security Improvements, since macOS 26.1: the others leave them on.
		{softwareUpdateDomain, "SplatEnabled", false},
		{appStoreDomain, "AutoUpdate", false},
	}
}

// InstallersDiffer says which of them are not turned off.
func InstallersDiffer(ctx context.Context, defaults macos.Defaults) ([]string, error) {
	return installers().differ(ctx, defaults)
}

// updates keeps the Mac from changing itself: updates are rolled out, not had.
type updates struct{ *step.Env }

func (u updates) step() step.Step {
	return step.Step{
		Name:  "updates",
		About: "Turns off the automatic download and installation of macOS, of security responses, of Background Security Improvements and of apps, and skips the panes of the Setup Assistant. Checks and data files stay on.",
		Undo:  "Turn automatic updates on in System Settings under General, Software Update, and Background Security Improvements under Privacy & Security.",
		Check: func(ctx context.Context) ([]string, error) { return wantedUpdates().differ(ctx, u.Mac.Defaults) },
		Act:   func(ctx context.Context) error { return wantedUpdates().write(ctx, u.Mac.Defaults) },

		TakeBack: func(ctx context.Context) error { return wantedUpdates().remove(ctx, u.Mac.Defaults) },
	}
}
