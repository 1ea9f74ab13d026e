package converge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
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

// screenSharing turns macOS' Screen Sharing and Remote Management off, unless the
// profile wants the former: the vendor's image has them on, for everybody who knows
// the user's password.
func (t *target) screenSharing() step {
	said := ""
	return step{
		name: "sharing",
		about: "Turns Screen Sharing (launchd's `" + ScreenSharingLabel + "`) and Remote Management off, also for later boots. With the profile's" +
			" `session.screenSharing: true` Screen Sharing is turned on instead; the firewall leaves its port 5900 to SSH tunnels, unless" +
			" `network.hostIngress` names it.",
		undo: "Turn Screen Sharing on in System Settings under General, Sharing, or run `sudo launchctl enable system/" + ScreenSharingLabel +
			"` and `sudo launchctl bootstrap system " + screenSharingPlist + "`.",
		check: func(ctx context.Context) ([]string, error) {
			s, err := t.sharingState(ctx)
			return s.differs(t.desired.Mac.ScreenSharing), err
		},
		act: func(ctx context.Context) (err error) {
			if t.desired.Mac.ScreenSharing {
				return t.share(ctx)
			}
			said, err = t.unshare(ctx)
			return err
		},
		takeBack: t.shareAgain,
		note:     func() string { return said },
	}
}

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

func (t *target) sharingState(ctx context.Context) (sharingState, error) {
	var s sharingState
	var err error
	if s.disabled, err = t.Mac.Launchd.Disabled(ctx, ScreenSharingLabel); err != nil {
		return s, err
	}
	if _, s.loaded, err = t.printJob(ctx, job{label: ScreenSharingLabel}); err != nil {
		return s, err
	}
	if s.management, err = t.exists(ctx, RemoteManagementFile); err != nil {
		return s, fmt.Errorf("looking whether Remote Management is on: %w", err)
	}
	if s.boot, err = t.Mac.Host.BootSession(ctx); err != nil {
		return s, fmt.Errorf("reading the boot session: %w", err)
	}
	s.note, err = readSharingNote(t.Mac.Files)
	return s, err
}

// unshare turns both off. What macOS does not end at once is told, and is no failure:
// it does not start at the next boot, and the firewall shuts its port until then.
func (t *target) unshare(ctx context.Context) (said string, err error) {
	s, err := t.sharingState(ctx)
	if err != nil {
		return "", err
	}
	s.note.TurnedOff = s.note.TurnedOff || s.loaded
	s.note.Lingers = ""
	if err := t.writeSharingNote(ctx, s.note); err != nil {
		return "", err
	}
	var refused error
	if s.management {
		refused = t.Mac.Sharing.StopRemoteManagement(ctx)
	}
	if err := t.Mac.Launchd.Disable(ctx, ScreenSharingLabel); err != nil {
		return "", err
	}
	if s.loaded {
		refused = errors.Join(refused, t.endScreenSharing(ctx))
	}
	now, err := t.sharingState(ctx)
	if err != nil || !now.loaded && !now.management {
		return "", err
	}
	now.note.Lingers = now.boot
	if err := t.writeSharingNote(ctx, now.note); err != nil {
		return "", err
	}
	said = "turned off, and macOS keeps it running until the next boot; the firewall shuts its port"
	if refused != nil {
		said += ": " + refused.Error()
	}
	return said, nil
}

func (t *target) endScreenSharing(ctx context.Context) error {
	err := t.Mac.Launchd.Bootout(ctx, ScreenSharingLabel)
	var refused *macos.LaunchdError
	if errors.As(err, &refused) && (refused.Absent() || refused.Busy()) {
		err = nil
	}
	if err != nil {
		return err
	}
	return await(ctx, t.Mac.Clock, sharingTimeout, "the end of Screen Sharing", func() (bool, error) {
		_, loaded, err := t.printJob(ctx, job{label: ScreenSharingLabel})
		return !loaded, err
	})
}

// share turns Screen Sharing on.
func (t *target) share(ctx context.Context) error {
	if err := t.Mac.Launchd.Enable(ctx, ScreenSharingLabel); err != nil {
		return err
	}
	_, loaded, err := t.printJob(ctx, job{label: ScreenSharingLabel})
	if err == nil && !loaded {
		err = t.Mac.Launchd.Bootstrap(ctx, screenSharingPlist)
	}
	if err != nil {
		return fmt.Errorf("turning Screen Sharing on: %w", err)
	}
	return t.Mac.Files.Remove(sharingFile)
}

// shareAgain turns Screen Sharing on if it was on before. Remote Management has
// settings of its own, which nobody here knows.
func (t *target) shareAgain(ctx context.Context) error {
	note, err := readSharingNote(t.Mac.Files)
	if err != nil || !note.TurnedOff {
		return err
	}
	return t.share(ctx)
}

func readSharingNote(files macos.Files) (sharingNote, error) {
	var note sharingNote
	data, err := read(files, sharingFile)
	if errors.Is(err, fs.ErrNotExist) {
		return note, nil
	}
	if err != nil {
		return note, fmt.Errorf("reading %s: %w", sharingFile, err)
	}
	if json.Unmarshal(data, &note) != nil {
		// Half a note is none: at worst what lingers is ended once more.
		return sharingNote{}, nil
	}
	return note, nil
}

func (t *target) writeSharingNote(ctx context.Context, note sharingNote) error {
	data, err := json.Marshal(note)
	if err == nil {
		err = write(ctx, t.Mac.Files, file{sharingFile, append(data, '\n'), macos.Attr{Mode: 0o600, Owner: root, Group: wheel}})
	}
	if err != nil {
		return fmt.Errorf("recording what was turned off: %w", err)
	}
	return nil
}
