package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	// sshdDropIn sorts before macOS's own 100-macos.conf, and the first value that
	// sshd reads counts.
	sshdDropIn = "/etc/ssh/sshd_config.d/000-macfleet.conf"
	// sshdStage is where the file is checked before it counts.
	sshdStage = document.StateDir + "/sshd.conf"
)

type sshdSetting struct{ keyword, value string }

// wantedSSHD lets the user in with a key, and nobody else. PAM stays: it gives the
// login its place in launchd. Both key files are named, so that nothing depends on
// the image's choice.
func (t *target) wantedSSHD() []sshdSetting {
	return []sshdSetting{
		{"PasswordAuthentication", "no"},
		{"KbdInteractiveAuthentication", "no"},
		{"PermitRootLogin", "no"},
		{"AllowUsers", t.desired.Host.User},
		{"MaxAuthTries", "4"},
		{"LoginGraceTime", "20"},
		{"AllowAgentForwarding", "no"},
		{"X11Forwarding", "no"},
		{"AuthorizedKeysFile", ".ssh/authorized_keys .ssh/scw_authorized_keys"},
		{"UsePAM", "yes"},
	}
}

func (t *target) sshdFile() file {
	var text strings.Builder
	text.WriteString("# Written by macfleet; changes are overwritten.\n")
	for _, s := range t.wantedSSHD() {
		text.WriteString(s.keyword + " " + s.value + "\n")
	}
	return file{sshdDropIn, []byte(text.String()), macos.Attr{Mode: 0o644, Owner: root, Group: wheel}}
}

// sshd shuts the SSH server to all but the user's keys.
func (t *target) sshd() step {
	return step{
		name:  "sshd",
		about: "Writes `" + sshdDropIn + "`: keys only, no root, the console user only, no forwarding of agents and displays. The file is taken back when the server does not come up with it.",
		undo:  "Remove `" + sshdDropIn + "`; the next connection goes by macOS's own settings.",
		check: func(ctx context.Context) ([]string, error) {
			all, err := t.differing(ctx, t.sshdFile())
			if err != nil || len(all) > 0 {
				return all, err
			}
			return t.sshdDiffers(ctx)
		},
		act:      t.shutSSHD,
		takeBack: func(context.Context) error { return t.Mac.Files.Remove(sshdDropIn) },
		// The act proves the file itself, so that it can take it back.
		prove: func(context.Context) error { return nil },
	}
}

// sshdDiffers compares with what sshd itself makes of all its files.
func (t *target) sshdDiffers(ctx context.Context) ([]string, error) {
	got, err := t.Mac.SSHD.Effective(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking sshd for its settings: %w", err)
	}
	var all []string
	for _, s := range t.wantedSSHD() {
		if value := got[strings.ToLower(s.keyword)]; value != s.value {
			all = append(all, fmt.Sprintf("%s of the SSH server is %.64q", s.keyword, value))
		}
	}
	return all, nil
}

// shutSSHD writes the file, and puts back what was there unless the server then
// answers with these settings: the Mac has no other door.
func (t *target) shutSSHD(ctx context.Context) error {
	wanted := t.sshdFile()
	before, err := read(t.Mac.Files, sshdDropIn)
	existed := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading %s: %w", sshdDropIn, err)
	}
	if err := t.checkSSHD(ctx, wanted); err != nil {
		return err
	}
	if err := write(ctx, t.Mac.Files, wanted); err != nil {
		return err
	}
	wrong := t.proveSSHD(ctx)
	if wrong == nil {
		return nil
	}
	if existed {
		err = write(ctx, t.Mac.Files, file{sshdDropIn, before, wanted.attr})
	} else {
		err = t.Mac.Files.Remove(sshdDropIn)
	}
	if err != nil {
		return fmt.Errorf("%w; taking %s back failed too: %w", wrong, sshdDropIn, err)
	}
	return wrong
}

// checkSSHD has sshd read a copy that does not count yet.
func (t *target) checkSSHD(ctx context.Context, wanted file) error {
	wanted.path = sshdStage
	if err := write(ctx, t.Mac.Files, wanted); err != nil {
		return err
	}
	refused := t.Mac.SSHD.Check(ctx, sshdStage)
	if err := t.Mac.Files.Remove(sshdStage); err != nil {
		return fmt.Errorf("removing %s: %w", sshdStage, err)
	}
	if refused != nil {
		return fail(document.Bug, "sshd refuses our settings, nothing was changed: %w", refused)
	}
	return nil
}

func (t *target) proveSSHD(ctx context.Context) error {
	differs, err := t.sshdDiffers(ctx)
	if err != nil {
		return fmt.Errorf("%s was taken back: %w", sshdDropIn, err)
	}
	if len(differs) > 0 {
		return fail(document.Human, "%s was taken back, for another file comes before it: %s. Look in /etc/ssh/sshd_config and sshd_config.d",
			sshdDropIn, strings.Join(differs, "; "))
	}
	if err := t.Mac.SSHD.Answers(ctx); err != nil {
		return fmt.Errorf("%s was taken back: %w", sshdDropIn, err)
	}
	return nil
}
