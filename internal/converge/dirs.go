package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

type dir struct {
	path string
	attr macos.Attr
}

// wantedDirs are the folders, parents first. The shared ones under /usr/local
// are asserted too: whoever may write there could replace what root executes,
// and leftovers of package managers hand them to the console user.
func (t *target) wantedDirs() []dir {
	public := macos.Attr{Mode: 0o755, Owner: root, Group: wheel}
	user := t.desired.Host.User
	return []dir{
		{"/usr/local", public},
		{"/usr/local/bin", public},
		{"/usr/local/libexec", public},
		{document.InstallDir, public},
		{document.ConfigDir, macos.Attr{Mode: 0o750, Owner: root, Group: staff}},
		{document.StateDir, rootOnly},
		{document.AgentStateDir, macos.Attr{Mode: 0o700, Owner: user, Group: staff}},
		{document.LogDir, macos.Attr{Mode: 0o750, Owner: user, Group: staff}},
	}
}

// dirs makes the folders and asserts who may do what in them.
func (t *target) dirs() step {
	return step{
		name: "dirs",
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
				differs, err := t.dirDiffers(ctx, d)
				if err != nil {
					return err
				}
				if differs == "" {
					continue
				}
				if err := t.Mac.Files.MakeDir(ctx, d.path, d.attr); err != nil {
					return fmt.Errorf("making %s: %w", d.path, err)
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
