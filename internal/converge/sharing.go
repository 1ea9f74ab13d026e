package converge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const (
	// ScreenSharingLabel is macOS' own job behind Screen Sharing, which speaks VNC.
	ScreenSharingLabel = "com.apple.screensharing"
	screenSharingPlist = "/System/Library/LaunchDaemons/" + ScreenSharingLabel + ".plist"
	// RemoteManagementFile is there while Remote Management (Apple Remote Desktop) is
	// on, which shares the screen by itself.
	RemoteManagementFile = "/Library/Application Support/Apple/Remote Desktop/RemoteManagement.launchd"
	// sharingFile remembers what was turned off, and what macOS kept running.
	sharingFile = document.StateDir + "/sharing.json"
	// sharingTimeout is how long a job takes to leave.
	sharingTimeout = 20 * time.Second
)

// sharing turns macOS' Screen Sharing and Remote Management off, unless the
// profile wants the former: the vendor's image has them on, for everybody who knows
// the user's password.
type sharing struct{ *step.Env }

func (x sharing) step() step.Step {
	said := ""
	return step.Step{
		Name: "sharing",
		About: "Turns Screen Sharing (launchd's `" + ScreenSharingLabel + "`) and Remote Management off, also for later boots. With the profile's" +
			" `session.screenSharing: true` Screen Sharing is turned on instead; the firewall leaves its port 5900 to SSH tunnels, unless" +
			" `network.hostIngress` names it.",
		Undo: "Turn Screen Sharing on in System Settings under General, Sharing, or run `sudo launchctl enable system/" + ScreenSharingLabel +
			"` and `sudo launchctl bootstrap system " + screenSharingPlist + "`.",
		Check: func(ctx context.Context) ([]string, error) {
			s, err := x.sharingState(ctx)
			return s.differs(x.Desired.Mac.ScreenSharing), err
		},
		Act: func(ctx context.Context) (err error) {
			if x.Desired.Mac.ScreenSharing {
				return x.turnSharingOn(ctx)
			}
			said, err = x.turnSharingOff(ctx)
			return err
		},
		TakeBack: x.restoreSharing,
		Note:     func() string { return said },
	}
}

// sharingRecord is the note of it. One that cannot be read is as good as none: at worst
// what lingers is ended once more.
var sharingRecord = step.Note[sharingNote]{Path: sharingFile, What: "what was turned off"}

// sharingNote is what cannot be seen from outside.
type sharingNote struct {
	// TurnedOff: it was on before the fleet had this Mac.
	TurnedOff bool `json:"turnedOff,omitempty"`
	// Lingers is the boot session in which macOS would not end what was turned off.
	Lingers string `json:"lingers,omitempty"`
}

type sharingState struct {
	// disabled: launchd does not load Screen Sharing at boot; loaded: it is there now.
	disabled, loaded bool
	// management: Remote Management is on.
	management bool
	note       sharingNote
	boot       string
}

func (s sharingState) differs(wanted bool) []string {
	var all []string
	if wanted {
		if s.disabled || !s.loaded {
			all = append(all, "Screen Sharing is off")
		}
		return all
	}
	if !s.disabled {
		all = append(all, "Screen Sharing is not turned off for later boots")
	}
	if s.note.Lingers == s.boot {
		return all // nothing ends it before the next boot
	}
	if s.loaded {
		all = append(all, "Screen Sharing is on")
	}
	if s.management {
		all = append(all, "Remote Management is on")
	}
	return all
}

func (x sharing) sharingState(ctx context.Context) (sharingState, error) {
	var s sharingState
	var err error
	if s.disabled, err = x.Mac.Launchd.Disabled(ctx, ScreenSharingLabel); err != nil {
		return s, err
	}
	if _, s.loaded, err = (launchd.Control{Mac: x.Mac}).Print(ctx, ScreenSharingLabel); err != nil {
		return s, err
	}
	if s.management, err = x.Exists(ctx, RemoteManagementFile); err != nil {
		return s, err
	}
	if s.boot, err = step.BootSession(ctx, x.Mac); err != nil {
		return s, err
	}
	s.note, err = sharingRecord.Read(x.Mac.Files)
	return s, err
}

// turnSharingOff turns both off. What macOS does not end at once is told, and is no failure:
// it does not start at the next boot, and the firewall shuts its port until then.
func (x sharing) turnSharingOff(ctx context.Context) (said string, err error) {
	s, err := x.sharingState(ctx)
	if err != nil {
		return "", err
	}
	s.note.TurnedOff = s.note.TurnedOff || s.loaded
	s.note.Lingers = ""
	if err := sharingRecord.Write(ctx, x.Mac.Files, s.note); err != nil {
		return "", err
	}
	var refused error
	if s.management {
		refused = x.Mac.Sharing.StopRemoteManagement(ctx)
	}
	if err := x.Mac.Launchd.Disable(ctx, ScreenSharingLabel); err != nil {
		return "", err
	}
	if s.loaded {
		refused = errors.Join(refused, x.endScreenSharing(ctx))
	}
	now, err := x.sharingState(ctx)
	if err != nil || !now.loaded && !now.management {
		return "", err
	}
	now.note.Lingers = now.boot
	if err := sharingRecord.Write(ctx, x.Mac.Files, now.note); err != nil {
		return "", err
	}
	said = "turned off, and macOS keeps it running until the next boot; the firewall shuts its port"
	if refused != nil {
		said += ": " + refused.Error()
	}
	return said, nil
}

func (x sharing) endScreenSharing(ctx context.Context) error {
	err := x.Mac.Launchd.Bootout(ctx, ScreenSharingLabel)
	var refused *macos.LaunchdError
	if errors.As(err, &refused) && (refused.Absent() || refused.Busy()) {
		err = nil
	}
	if err != nil {
		return err
	}
	return step.Await(ctx, x.Mac.Clock, sharingTimeout, "the end of Screen Sharing", func() (bool, error) {
		_, loaded, err := (launchd.Control{Mac: x.Mac}).Print(ctx, ScreenSharingLabel)
		return !loaded, err
	})
}

// turnSharingOn turns Screen Sharing on.
func (x sharing) turnSharingOn(ctx context.Context) error {
	if err := x.Mac.Launchd.Enable(ctx, ScreenSharingLabel); err != nil {
		return err
	}
	_, loaded, err := (launchd.Control{Mac: x.Mac}).Print(ctx, ScreenSharingLabel)
	if err == nil && !loaded {
		err = x.Mac.Launchd.Bootstrap(ctx, screenSharingPlist)
	}
	if err != nil {
		return fmt.Errorf("turning Screen Sharing on: %w", err)
	}
	return x.Mac.Files.Remove(sharingFile)
}

// restoreSharing turns Screen Sharing on if it was on before. Remote Management has
// settings of its own, which nobody here knows.
func (x sharing) restoreSharing(ctx context.Context) error {
	note, err := sharingRecord.Read(x.Mac.Files)
	if err != nil || !note.TurnedOff {
		return err
	}
	return x.turnSharingOn(ctx)
}
