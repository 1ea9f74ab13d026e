package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
	"github.com/macfleet/macfleet/internal/converge/takeover"
)

// diskMarker marks the disk with the install epoch. A mark of another epoch or of
// another Machine, one that cannot be read, or builds of ours without any mark
// mean that the disk was not wiped between two owners; only a reinstall makes
// such a Mac clean.
//
// The mark outlives uninstall, and so do the key and the counter: a run that began before may
// still wait for its document, as root, and whoever writes that document must not
// find a disk that takes a new key.
type diskMarker struct{ *step.Env }

func (d diskMarker) step() step.Step {
	return step.Step{
		Name: "journal",
		About: "Marks the disk with the install epoch in " + document.DiskMarkerFile + ", and, in the first run of an epoch only, " +
			"installs the public key that new builds of the agent, and all that the manager tells the Mac, must be signed with: " +
			document.UpgradeKeyFile + ". Beside it, " + document.CounterFile + " remembers the last instruction that the Mac took, so that none is taken twice.",
		Undo: "uninstall keeps them, for the disk belongs to its epoch until it is wiped. On a Mac that is yours alone, remove them as root: " +
			"a Mac without them is taken for a freshly installed one, as long as no build of ours is left on it.",
		Note: d.upgradeKeyNote,
		Check: func(ctx context.Context) ([]string, error) {
			marked, err := d.marked(ctx)
			if err != nil || marked {
				return nil, err
			}
			return []string{fmt.Sprintf("the disk is not marked with epoch %d", d.Desired.Host.Epoch)}, nil
		},
		Act: func(ctx context.Context) error {
			data, err := document.EncodeDiskMarker(document.DiskMarker{
				Epoch: d.Desired.Host.Epoch, Name: d.Desired.Host.Name, ProviderID: d.Desired.Host.ProviderID,
				User: d.Desired.Host.User, Created: d.Mac.Clock.Now().UTC(),
			})
			if err != nil {
				return err
			}
			// The key first: only a disk that is not marked yet takes one.
			if err := d.installUpgradeKey(ctx); err != nil {
				return err
			}
			return step.Write(ctx, d.Mac.Files, step.File{Path: document.DiskMarkerFile, Data: data, Attr: step.RootAttr(0o600)})
		},
	}
}

func (d diskMarker) marked(ctx context.Context) (bool, error) {
	m, err := readDiskMarker(d.Mac.Files)
	if errors.Is(err, fs.ErrNotExist) {
		return false, d.unmarkedIsClean(ctx)
	}
	if err != nil {
		return false, err
	}
	want := d.Desired.Host
	if err := anothersDisk(m, want); err != nil {
		return false, err
	}
	if m.User != want.User {
		return false, step.Fail(document.Human, "this Mac was set up for the user %.64q, and the document names %q: put the user back, or reinstall the Mac",
			m.User, want.User)
	}
	return true, nil
}

// readDiskMarker reads the mark of the disk. fs.ErrNotExist: there is none.
func readDiskMarker(files macos.Files) (document.DiskMarker, error) {
	data, err := step.Read(files, document.DiskMarkerFile)
	if err != nil {
		return document.DiskMarker{}, fmt.Errorf("reading the journal: %w", err)
	}
	m, err := document.DecodeDiskMarker(data)
	if err != nil {
		return document.DiskMarker{}, step.Fail(document.Reinstall, document.NotWiped+"a journal survives that says nothing: %w", err)
	}
	return m, nil
}

// anothersDisk says why a marked disk is not this host's, in this epoch.
func anothersDisk(m document.DiskMarker, host document.Host) error {
	switch {
	case m.Epoch != host.Epoch, m.Name != host.Name:
		return step.Fail(document.Reinstall, document.NotWiped+"the disk belongs to epoch %d of %.64q, not to epoch %d of %.64q",
			m.Epoch, m.Name, host.Epoch, host.Name)
	case m.ProviderID != host.ProviderID:
		return step.Fail(document.Reinstall, document.NotWiped+"the disk belongs to %.128q, not to %.128q", m.ProviderID, host.ProviderID)
	}
	return nil
}

// markedAs is the marker of the disk, and the zero value where none can be read.
func markedAs(files macos.Files) document.DiskMarker {
	m, err := readDiskMarker(files)
	if err != nil {
		return document.DiskMarker{}
	}
	return m
}

// unmarkedIsClean fails when there are builds of ours, or anything of the first
// system, on a disk without marker. A Mac that is taken over from it is no clean one,
// and need not be.
func (d diskMarker) unmarkedIsClean(ctx context.Context) error {
	names, err := d.Mac.Files.List(document.InstallDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing %s: %w", document.InstallDir, err)
	}
	for _, name := range names {
		if document.IsSHA256(name) {
			return step.Fail(document.Reinstall, document.NotWiped+"build %s survives without a journal", name)
		}
	}
	if d.TakeOver {
		return nil
	}
	traces, err := takeover.Former{Env: d.Env}.Traces(ctx)
	if err != nil || len(traces) == 0 {
		return err
	}
	return step.Fail(document.Reinstall, document.NotWiped+"the first system's %s survives", strings.Join(traces, ", "))
}
