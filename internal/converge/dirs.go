package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// Dirs are the folders, parents first. The shared ones under /usr/local
// are asserted too: whoever may write there could replace what root executes,
// and leftovers of package managers hand them to the console user.
func Dirs(user string) []step.Dir {
	public := step.RootAttr(0o755)
	return []step.Dir{
		{Path: "/usr/local", Attr: public},
		{Path: "/usr/local/bin", Attr: public},
		{Path: "/usr/local/libexec", Attr: public},
		{Path: document.InstallDir, Attr: public},
		{Path: document.ConfigDir, Attr: step.StaffAttr(step.Root, 0o750)},
		{Path: document.StateDir, Attr: step.RootAttr(0o700)},
		{Path: document.AgentStateDir, Attr: step.StaffAttr(user, 0o700)},
		{Path: document.LogDir, Attr: public, Clean: true},
	}
}

// dirs makes the folders and asserts who may do what in them.
type dirs struct{ *step.Env }

func (x dirs) step() step.Step {
	return step.Step{
		Name: "dirs",
		About: "Makes the folders of the agent and asserts their owners and modes, also of /usr/local, /usr/local/bin and " +
			"/usr/local/libexec, which no user may write to.",
		Undo: "Remove " + document.InstallDir + ", " + document.ConfigDir + ", " + document.StateDir + ", " + document.AgentStateDir +
			" and " + document.LogDir + ". The shared folders stay as they are. uninstall keeps " + document.StateDir +
			", with the last report, the journal, the upgrade key and the counter of instructions.",
		TakeBack: x.removeDirs,
		Check:    func(ctx context.Context) ([]string, error) { return x.DirsDiffer(ctx, Dirs(x.Desired.Host.User)) },
		Act:      func(ctx context.Context) error { return x.MakeDirs(ctx, Dirs(x.Desired.Host.User)) },
	}
}

// removeDirs removes what is ours alone. The state folder stays, with what says
// what became of the Mac and to whom its disk belongs, and with the lock of the run
// that removes. The configuration says what there is to take back: it goes last, and
// stays where a step before failed, for the next run.
func (x dirs) removeDirs(ctx context.Context) error {
	// The agent leaves the RAM disk of its Pods for the next agent.
	if err := x.Mac.Images.DetachRAM(ctx, document.AgentRAMDisk); err != nil {
		return fmt.Errorf("detaching the RAM disk of Pods: %w", err)
	}
	ours := []string{document.InstallDir, document.AgentStateDir, document.LogDir}
	if _, failed := x.Report.FailedStep(); !failed {
		ours = append(ours, document.ConfigDir)
	}
	err := x.Remove(ours...)
	names, listed := x.Mac.Files.List(document.StateDir)
	if errors.Is(listed, fs.ErrNotExist) {
		return err
	}
	stays := []string{lockFile, document.ReportFile, document.DiskMarkerFile, document.UpgradeKeyFile, document.CounterFile}
	for _, name := range names {
		if p := path.Join(document.StateDir, name); !slices.Contains(stays, p) {
			listed = errors.Join(listed, x.Remove(p))
		}
	}
	return errors.Join(err, listed)
}
