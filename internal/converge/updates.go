package converge

import "context"

const (
	softwareUpdateDomain = "/Library/Preferences/com.apple.SoftwareUpdate"
	appStoreDomain       = "/Library/Preferences/com.apple.commerce"
	setupAssistantDomain = "/Library/Preferences/com.apple.SetupAssistant.managed"
)

// wantedUpdates let macOS look for updates and fetch its data files (malware
// definitions), and nothing that restarts the Mac. The assistant's panes after an
// update hold up the session that guests need, so all of them are skipped.
func wantedUpdates() []preference {
	wanted := []preference{
		{softwareUpdateDomain, "AutomaticCheckEnabled", true},
		{softwareUpdateDomain, "ConfigDataInstall", true},
		{softwareUpdateDomain, "AutomaticDownload", false},
		{softwareUpdateDomain, "AutomaticallyInstallMacOSUpdates", false},
		{softwareUpdateDomain, "CriticalUpdateInstall", false},
		{appStoreDomain, "AutoUpdate", false},
	}
	for _, pane := range []string{
		"SkipCloudSetup", "SkipiCloudStorageSetup", "SkipSiriSetup", "SkipPrivacySetup", "SkipScreenTime",
		"SkipAppearance", "SkipTrueTone", "SkipTouchIDSetup", "SkipAccessibility", "SkipUnlockWithWatch",
		"SkipTermsOfAddress", "SkipIntelligenceSetup", "SkipFirstLoginOptimization",
	} {
		wanted = append(wanted, preference{setupAssistantDomain, pane, true})
	}
	return wanted
}

// updates keeps the Mac from changing itself: updates are rolled out, not had.
func (t *target) updates() step {
	return step{
		name:  "updates",
		about: "Turns off the automatic download and installation of macOS, of security responses and of apps, and skips the panes of the Setup Assistant. Checks and data files stay on.",
		undo:  "Turn automatic updates on in System Settings under General, Software Update.",
		check: func(ctx context.Context) ([]string, error) { return t.unset(ctx, wantedUpdates()) },
		act:   func(ctx context.Context) error { return t.set(ctx, wantedUpdates()) },

		takeBack: func(ctx context.Context) error { return t.forget(ctx, wantedUpdates()) },
	}
}
