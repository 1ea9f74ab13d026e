package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

type dir struct {
	path string
	attr macos.Attr
	// clean: root works in it by name, so that what is in it is worth keeping only
	// if nobody else could put it there.
	clean bool
}

// wantedDirs are the folders, parents first. The shared ones under /usr/local
// are asserted too: whoever may write there could replace what root executes,
// and leftovers of package managers hand them to the console user.
func (t *target) wantedDirs() []dir {
	public := macos.Attr{Mode: 0o755, Owner: root, Group: wheel}
	user := t.desired.Host.User
	return []dir{
		{path: "/usr/local", attr: public},
		{path: "/usr/local/bin", attr: public},
		{path: "/usr/local/libexec", attr: public},
		{path: document.InstallDir, attr: public},
		{path: document.ConfigDir, attr: macos.Attr{Mode: 0o750, Owner: root, Group: staff}},
		{path: document.StateDir, attr: rootOnly},
		{path: document.AgentStateDir, attr: macos.Attr{Mode: 0o700, Owner: user, Group: staff}},
		{path: document.LogDir, attr: public, clean: true},
	}
}

// dirs makes the folders and asserts who may do what in them.
func (t *target) dirs() step {
	return step{
		name: "dirs",
		about: "Makes the folders of the agent and asserts their owners and modes, also of /usr/local, /usr/local/bin and " +
			"/usr/local/libexec, which no user may write to.",
		undo: "Remove " + document.InstallDir + ", " + document.ConfigDir + ", " + document.StateDir + ", " + document.AgentStateDir +
			" and " + document.LogDir + ". The shared folders stay as they are. uninstall keeps " + document.StateDir +
			", with the last report, the journal, the upgrade key and the counter of instructions.",
		takeBack: t.removeDirs,
		check: func(ctx context.Context) ([]string, error) {
			var all []string
			for _, d := range t.wantedDirs() {
				differs, err := t.dirDiffers(ctx, d)
				if err != nil {
					return nil, err
				}
				if differs != "" {
					all = append(all, differs)
				}
			}
			return all, nil
		},
		act: func(ctx context.Context) error {
			for _, d := range t.wantedDirs() {
				if err := t.makeDir(ctx, d); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (t *target) dirDiffers(ctx context.Context, d dir) (string, error) {
	info, err := t.Mac.Files.Stat(ctx, d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.path + " is missing", nil
	case err != nil:
		return "", fmt.Errorf("looking at %s: %w", d.path, err)
	case !info.Dir:
		return "", fail(document.Human, "%s is not a folder", d.path)
	case info.Attr != d.attr:
		return fmt.Sprintf("%s is %s, not %s", d.path, info.Attr, d.attr), nil
	}
	return "", nil
}

// makeDir makes the folder, or mends who may do what in it. What is no folder is
// left alone: a link would lead elsewhere.
func (t *target) makeDir(ctx context.Context, d dir) error {
	differs, err := t.dirDiffers(ctx, d)
	if err != nil || differs == "" {
		return err
	}
	if d.clean {
		if err := t.remove(d.path); err != nil {
			return err
		}
	}
	if err := t.Mac.Files.MakeDir(ctx, d.path, d.attr); err != nil {
		return fmt.Errorf("making %s: %w", d.path, err)
	}
	return nil
}

// removeDirs removes what is ours alone. The state folder stays, with what says
// what became of the Mac and to whom its disk belongs, and with the lock of the run
// that removes.
func (t *target) removeDirs(ctx context.Context) error {
	// The agent leaves the RAM disk of its Pods for the next agent.
	if err := t.Mac.Images.DetachRAM(ctx, document.AgentRAMDisk); err != nil {
		return fmt.Errorf("detaching the RAM disk of Pods: %w", err)
	}
	err := t.remove(document.InstallDir, document.ConfigDir, document.AgentStateDir, document.LogDir)
	names, listed := t.Mac.Files.List(document.StateDir)
	if errors.Is(listed, fs.ErrNotExist) {
		return err
	}
	stays := []string{lockFile, document.ReportFile, document.JournalFile, document.UpgradeKeyFile, document.CounterFile}
	for _, name := range names {
		if p := path.Join(document.StateDir, name); !slices.Contains(stays, p) {
			listed = errors.Join(listed, t.remove(p))
		}
	}
	return errors.Join(err, listed)
}
