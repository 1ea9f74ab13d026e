package converge

import (
	"slices"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// shared is a Mac as the vendor delivers it: with VNC.
func shared(t *testing.T) *fixture {
	f := newFixture(t)
	plist := `<?xml version="1.0"?><plist version="1.0"><dict><key>Label</key><string>` + ScreenSharingLabel + `</string></dict></plist>`
	readable := step.RootAttr(0o644)
	f.mac.Put(screenSharingPlist, []byte(plist), readable)
	f.mac.Put(RemoteManagementFile, []byte("enabled"), readable)
	f.mac.Load(ScreenSharingLabel)
	return f
}

func (f *fixture) screen(on bool) {
	f.t.Helper()
	if err := f.mac.Interfaces().Clock.Sleep(f.t.Context(), sharingTimeout); err != nil {
		f.t.Fatal(err)
	}
	if got := f.mac.Loaded(ScreenSharingLabel); got != on || f.mac.DisabledJobs[ScreenSharingLabel] == on {
		f.t.Errorf("Screen Sharing is loaded: %t, off for later boots: %t; want it on: %t", got, f.mac.DisabledJobs[ScreenSharingLabel], on)
	}
}

func TestScreenSharingIsOffUnlessTheProfileWantsIt(t *testing.T) {
	f := shared(t)
	f.converge()
	f.screen(false)
	f.gone(RemoteManagementFile)
	if got := outcomes(f.converge())["sharing"]; got != document.Unchanged {
		t.Errorf("looked at again: %s", got)
	}
	f.mac.Reboot()
	f.screen(false)

	f.desired.Mac.ScreenSharing = true
	f.converge()
	f.screen(true)
	if got := outcomes(f.converge())["sharing"]; got != document.Unchanged {
		t.Errorf("on, looked at again: %s", got)
	}
	f.desired.Mac.ScreenSharing = false
	f.converge()
	f.screen(false)
}

// Somebody who turned it on by hand is found by a check.
func TestScreenSharingTurnedOnByHandIsDrift(t *testing.T) {
	f := shared(t)
	f.converge()
	delete(f.mac.DisabledJobs, ScreenSharingLabel)
	f.mac.Load(ScreenSharingLabel)
	check := f.options()
	check.Plan = true
	if got := outcomes(f.run(check))["sharing"]; got != document.Planned {
		t.Errorf("step sharing is %s", got)
	}
	f.converge()
	f.screen(false)
}

// System Integrity Protection may keep the job until the next boot: that is told, it
// is no failure, and nobody tries again and again.
func TestScreenSharingThatLingersIsTold(t *testing.T) {
	f := shared(t)
	f.mac.Protected = map[string]bool{ScreenSharingLabel: true}
	r := f.converge()
	i := slices.IndexFunc(r.Steps, func(s document.StepReport) bool { return s.Name == "sharing" })
	if s := r.Steps[i]; s.Outcome != document.Changed || !strings.Contains(s.Detail, "until the next boot") {
		t.Errorf("step sharing: %s, %q", s.Outcome, s.Detail)
	}
	if got := outcomes(f.converge())["sharing"]; got != document.Unchanged {
		t.Errorf("looked at again in the same boot: %s", got)
	}
	f.mac.Reboot()
	f.screen(false)
	if got := outcomes(f.converge())["sharing"]; got != document.Unchanged {
		t.Errorf("after the boot: %s", got)
	}
}

func TestUninstallSharesTheScreenAgainOnlyWhereItWas(t *testing.T) {
	f := shared(t)
	f.converge()
	uninstall(t.Context(), f.options(), true)
	f.screen(true)
	f.gone(sharingFile)

	f = newFixture(t)
	f.converge()
	uninstall(t.Context(), f.options(), true)
	if f.mac.Loaded(ScreenSharingLabel) {
		t.Error("Screen Sharing was never on, and is now")
	}
}
