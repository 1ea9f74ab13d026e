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
	// none is how sshd spells that there is nothing.
	none = "none"
)

type sshdSetting struct{ keyword, value string }

// wantedSSHD lets the user in with a key of the fleet or the profile, and nobody
// else. PAM stays: it gives the login its place in launchd. The vendor puts every key
// of its project into the user's own files, so those are not read, and neither is
// any other source of keys.
func (t *target) wantedSSHD() []sshdSetting {
	return []sshdSetting{
		{"PasswordAuthentication", "no"},
		{"KbdInteractiveAuthentication", "no"},
		{"HostbasedAuthentication", "no"},
		{"PubkeyAuthentication", "yes"},
		{"PermitRootLogin", "no"},
		{"AllowUsers", t.desired.Host.User},
		{"MaxAuthTries", "4"},
		{"LoginGraceTime", "20"},
		{"AllowAgentForwarding", "no"},
		{"X11Forwarding", "no"},
		{"AuthorizedKeysFile", document.AuthorizedKeysFile},
		{"AuthorizedKeysCommand", none},
		{"TrustedUserCAKeys", none},
		{"UsePAM", "yes"},
	}
}

// keysFile holds all keys that may log in. sshd reads it as the user, so all may.
func (t *target) keysFile() file {
	text := "# Written by macfleet; changes are overwritten. Name keys in the profile's sshAccess.authorizedKeys.\n" +
		strings.Join(t.desired.AuthorizedKeys(), "\n") + "\n"
	return file{document.AuthorizedKeysFile, []byte(text), macos.Attr{Mode: 0o644, Owner: root, Group: wheel}}
}

func (t *target) sshdFile() file {
	var text strings.Builder
	text.WriteString("# Written by macfleet; changes are overwritten.\n")
	for _, s := range t.wantedSSHD() {
		text.WriteString(s.keyword + " " + s.value + "\n")
	}
	return file{sshdDropIn, []byte(text.String()), macos.Attr{Mode: 0o644, Owner: root, Group: wheel}}
}

// sshd shuts the SSH server to all but the keys of the fleet and the profile.
func (t *target) sshd() step {
	return step{
		name:  "sshd",
		about: "Writes `" + sshdDropIn + "` and `" + document.AuthorizedKeysFile + "`: keys only, those of the fleet and of the profile's `sshAccess.authorizedKeys`, no root, the console user only, no forwarding of agents and displays. What is in `~/.ssh` does not log in any more. Both files are taken back unless a new connection takes the fleet's key.",
		undo:  "Remove `" + sshdDropIn + "`, then `" + document.AuthorizedKeysFile + "`; the next connection goes by macOS's own settings, and by the keys in `~/.ssh`.",
		check: func(ctx context.Context) ([]string, error) {
			if len(t.desired.SSHKeys) == 0 {
				return nil, fail(document.Bug, "the document names no SSH key of the fleet, and the manager could not log in any more: nothing was changed")
			}
			all, err := t.differing(ctx, t.keysFile(), t.sshdFile())
			if err != nil || len(all) > 0 {
				return all, err
			}
			return t.sshdDiffers(ctx)
		},
		act: t.shutSSHD,
		// First what names the other: nobody could log in by a file that is not there.
		takeBack: func(context.Context) error { return t.remove(sshdDropIn, document.AuthorizedKeysFile) },
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

// shutSSHD writes the files, and puts back what was there unless the server then
// answers with these settings and takes the fleet's key: the Mac has no other door.
func (t *target) shutSSHD(ctx context.Context) error {
	settings, keys := t.sshdFile(), t.keysFile()
	var before []former
	for _, f := range []file{settings, keys} {
		old, err := t.before(f)
		if err != nil {
			return err
		}
		before = append(before, old)
	}
	if err := t.checkSSHD(ctx, settings); err != nil {
		return err
	}
	// The keys come first: the settings name their file.
	for _, f := range []file{keys, settings} {
		if err := write(ctx, t.Mac.Files, f); err != nil {
			return err
		}
	}
	wrong := t.proveSSHD(ctx)
	if wrong == nil {
		return nil
	}
	for _, old := range before {
		if err := t.putBack(ctx, old); err != nil {
			return fmt.Errorf("%w; taking %s back failed too: %w", wrong, old.path, err)
		}
	}
	return wrong
}

// former is a file as it was; existed is false where there was none.
type former struct {
	file
	existed bool
}

func (t *target) before(f file) (former, error) {
	data, err := read(t.Mac.Files, f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return former{file: f}, nil
	}
	if err != nil {
		return former{}, fmt.Errorf("reading %s: %w", f.path, err)
	}
	return former{file{f.path, data, f.attr}, true}, nil
}

func (t *target) putBack(ctx context.Context, f former) error {
	if f.existed {
		return write(ctx, t.Mac.Files, f.file)
	}
	return t.Mac.Files.Remove(f.path)
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
	if err := t.Mac.SSHD.Accepts(ctx, t.desired.Host.User, t.desired.SSHKeys[0]); err != nil {
		return fmt.Errorf("%s was taken back: %w", sshdDropIn, err)
	}
	return nil
}
