package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
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

// SSHDSetting is a line of the SSH server's configuration.
type SSHDSetting struct{ Keyword, Value string }

// SSHDSettings let the user in with a key of the fleet or the profile, and nobody
// else. PAM stays: it gives the login its place in launchd. The vendor puts every key
// of its project into the user's own files, so those are not read, and neither is
// any other source of keys.
func SSHDSettings(user string) []SSHDSetting {
	return []SSHDSetting{
		{"PasswordAuthentication", "no"},
		{"KbdInteractiveAuthentication", "no"},
		{"HostbasedAuthentication", "no"},
		{"PubkeyAuthentication", "yes"},
		{"PermitRootLogin", "no"},
		{"AllowUsers", user},
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
func (x sshd) keysFile() step.File {
	text := "# Written by macfleet; changes are overwritten. Name keys in the profile's sshAccess.authorizedKeys.\n" +
		strings.Join(x.Desired.AuthorizedKeys(), "\n") + "\n"
	return step.File{Path: document.AuthorizedKeysFile, Data: []byte(text), Attr: step.RootAttr(0o644)}
}

func (x sshd) sshdFile() step.File {
	var text strings.Builder
	text.WriteString("# Written by macfleet; changes are overwritten.\n")
	for _, s := range SSHDSettings(x.Desired.Host.User) {
		text.WriteString(s.Keyword + " " + s.Value + "\n")
	}
	return step.File{Path: sshdDropIn, Data: []byte(text.String()), Attr: step.RootAttr(0o644)}
}

// sshd shuts the SSH server to all but the keys of the fleet and the profile.
type sshd struct{ *step.Env }

func (x sshd) step() step.Step {
	return step.Step{
		Name:  "sshd",
		About: "Writes `" + sshdDropIn + "` and `" + document.AuthorizedKeysFile + "`: keys only, those of the fleet and of the profile's `sshAccess.authorizedKeys`, no root, the console user only, no forwarding of agents and displays. What is in `~/.ssh` does not log in any more. Both files are taken back unless a new connection takes the fleet's key.",
		Undo:  "Remove `" + sshdDropIn + "`, then `" + document.AuthorizedKeysFile + "`; the next connection goes by macOS's own settings, and by the keys in `~/.ssh`.",
		Check: func(ctx context.Context) ([]string, error) {
			if len(x.Desired.SSHKeys) == 0 {
				return nil, step.Fail(document.Bug, "the document names no SSH key of the fleet, and the manager could not log in any more: nothing was changed")
			}
			all, err := x.Differing(ctx, x.keysFile(), x.sshdFile())
			if err != nil || len(all) > 0 {
				return all, err
			}
			return x.sshdDiffers(ctx)
		},
		Act: x.installSSHD,
		// First what names the other: nobody could log in by a file that is not there.
		TakeBack: func(context.Context) error { return x.Remove(sshdDropIn, document.AuthorizedKeysFile) },
		// The act proves the file itself, so that it can take it back.
		Prove: step.Unproved,
	}
}

// sshdDiffers compares with what sshd itself makes of all its files.
func (x sshd) sshdDiffers(ctx context.Context) ([]string, error) {
	got, err := x.Mac.SSHD.Effective(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking sshd for its settings: %w", err)
	}
	var all []string
	for _, s := range SSHDSettings(x.Desired.Host.User) {
		if value := got[strings.ToLower(s.Keyword)]; value != s.Value {
			all = append(all, fmt.Sprintf("%s of the SSH server is %.64q", s.Keyword, value))
		}
	}
	return all, nil
}

// installSSHD writes the files, and puts back what was there unless the server then
// answers with these settings and takes the fleet's key: the Mac has no other door.
func (x sshd) installSSHD(ctx context.Context) error {
	settings, keys := x.sshdFile(), x.keysFile()
	var before []previousFile
	for _, f := range []step.File{settings, keys} {
		old, err := x.previous(f)
		if err != nil {
			return err
		}
		before = append(before, old)
	}
	if err := x.checkSSHD(ctx, settings); err != nil {
		return err
	}
	// The keys come first: the settings name their file.
	for _, f := range []step.File{keys, settings} {
		if err := step.Write(ctx, x.Mac.Files, f); err != nil {
			return err
		}
	}
	wrong := x.proveSSHD(ctx)
	if wrong == nil {
		return nil
	}
	for _, old := range before {
		if err := x.putBack(ctx, old); err != nil {
			return fmt.Errorf("%w; taking %s back failed too: %w", wrong, old.Path, err)
		}
	}
	return wrong
}

// previousFile is a file as it was; existed is false where there was none.
type previousFile struct {
	step.File
	existed bool
}

func (x sshd) previous(f step.File) (previousFile, error) {
	data, err := step.Read(x.Mac.Files, f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return previousFile{File: f}, nil
	}
	if err != nil {
		return previousFile{}, fmt.Errorf("reading %s: %w", f.Path, err)
	}
	return previousFile{File: step.File{Path: f.Path, Data: data, Attr: f.Attr}, existed: true}, nil
}

func (x sshd) putBack(ctx context.Context, f previousFile) error {
	if f.existed {
		return step.Write(ctx, x.Mac.Files, f.File)
	}
	return x.Mac.Files.Remove(f.Path)
}

// checkSSHD has sshd read a copy that does not count yet.
func (x sshd) checkSSHD(ctx context.Context, wanted step.File) error {
	wanted.Path = sshdStage
	if err := step.Write(ctx, x.Mac.Files, wanted); err != nil {
		return err
	}
	refused := x.Mac.SSHD.Check(ctx, sshdStage)
	if err := x.Mac.Files.Remove(sshdStage); err != nil {
		return fmt.Errorf("removing %s: %w", sshdStage, err)
	}
	if refused != nil {
		return step.Fail(document.Bug, "sshd refuses our settings, nothing was changed: %w", refused)
	}
	return nil
}

func (x sshd) proveSSHD(ctx context.Context) error {
	differs, err := x.sshdDiffers(ctx)
	if err != nil {
		return fmt.Errorf("%s was taken back: %w", sshdDropIn, err)
	}
	if len(differs) > 0 {
		return step.Fail(document.Human, "%s was taken back, for another file comes before it: %s. Look in /etc/ssh/sshd_config and sshd_config.d",
			sshdDropIn, strings.Join(differs, "; "))
	}
	if err := x.Mac.SSHD.Answers(ctx); err != nil {
		return fmt.Errorf("%s was taken back: %w", sshdDropIn, err)
	}
	if err := x.Mac.SSHD.Accepts(ctx, x.Desired.Host.User, x.Desired.SSHKeys[0]); err != nil {
		return fmt.Errorf("%s was taken back: %w", sshdDropIn, err)
	}
	return nil
}
