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

// journal marks the disk with the install epoch. A mark of another epoch or of
// another Machine, one that cannot be read, or builds of ours without any mark
// mean that the disk was not wiped between two owners; only a reinstall makes
// such a Mac clean.
//
// The mark outlives uninstall, and so do the key and the counter: a run that began before may
// still wait for its document, as root, and whoever writes that document must not
// find a disk that takes a new key.
func (t *target) journal() step {
	return step{
		name: "journal",
		about: "Marks the disk with the install epoch in " + document.JournalFile + ", and, in the first run of an epoch only, " +
			"installs the public key that new builds of the agent, and all that the manager tells the Mac, must be signed with: " +
			document.UpgradeKeyFile + ". Beside it, " + document.CounterFile + " remembers the last instruction that the Mac took, so that none is taken twice.",
		undo: "uninstall keeps them, for the disk belongs to its epoch until it is wiped. On a Mac that is yours alone, remove them as root: " +
			"a Mac without them is taken for a freshly installed one, as long as no build of ours is left on it.",
		note: t.trusts,
		check: func(ctx context.Context) ([]string, error) {
			marked, err := t.marked(ctx)
			if err != nil || marked {
				return nil, err
			}
			return []string{fmt.Sprintf("the disk is not marked with epoch %d", t.desired.Host.Epoch)}, nil
		},
		act: func(ctx context.Context) error {
			data, err := document.EncodeJournal(document.Journal{
				Epoch: t.desired.Host.Epoch, Name: t.desired.Host.Name, ProviderID: t.desired.Host.ProviderID,
				User: t.desired.Host.User, Created: t.Mac.Clock.Now().UTC(),
			})
			if err != nil {
				return err
			}
			// The key first: only a disk that is not marked yet takes one.
			if err := t.trust(ctx); err != nil {
				return err
			}
			return write(ctx, t.Mac.Files, file{document.JournalFile, data, rootFile})
		},
	}
}

func (t *target) marked(ctx context.Context) (bool, error) {
	j, err := readJournal(t.Mac.Files)
	if errors.Is(err, fs.ErrNotExist) {
		return false, t.unmarkedIsClean(ctx)
	}
	if err != nil {
		return false, err
	}
	want := t.desired.Host
	if err := disowned(j, want); err != nil {
		return false, err
	}
	if j.User != "" && j.User != want.User {
		return false, fail(document.Human, "this Mac was set up for the user %.64q, and the document names %q: put the user back, or reinstall the Mac",
			j.User, want.User)
	}
	return true, nil
}

// readJournal reads the mark of the disk. fs.ErrNotExist: there is none.
func readJournal(files macos.Files) (document.Journal, error) {
	data, err := read(files, document.JournalFile)
	if err != nil {
		return document.Journal{}, fmt.Errorf("reading the journal: %w", err)
	}
	j, err := document.DecodeJournal(data)
	if err != nil {
		return document.Journal{}, fail(document.Reinstall, "not wiped: a journal survives that says nothing: %w", err)
	}
	return j, nil
}

// disowned says why a marked disk is not this host's, in this epoch.
func disowned(j document.Journal, host document.Host) error {
	switch {
	case j.Epoch != host.Epoch, j.Name != host.Name:
		return fail(document.Reinstall, "not wiped: the disk belongs to epoch %d of %.64q, not to epoch %d of %.64q",
			j.Epoch, j.Name, host.Epoch, host.Name)
	case j.ProviderID != "" && j.ProviderID != host.ProviderID:
		return fail(document.Reinstall, "not wiped: the disk belongs to %.128q, not to %.128q", j.ProviderID, host.ProviderID)
	}
	return nil
}

// journaled is the journal of the Mac, and the zero value where none can be read.
func (o Options) journaled() document.Journal {
	j, err := readJournal(o.Mac.Files)
	if err != nil {
		return document.Journal{}
	}
	return j
}

// unmarkedIsClean fails when there are builds of ours, or anything of the first
// system, on a disk without journal. A Mac that is taken over from it is no clean one,
// and need not be.
func (t *target) unmarkedIsClean(ctx context.Context) error {
	names, err := t.Mac.Files.List(document.InstallDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing %s: %w", document.InstallDir, err)
	}
	for _, name := range names {
		if document.IsSHA256(name) {
			return fail(document.Reinstall, "not wiped: build %s survives without a journal", name)
		}
	}
	if t.takesOver() {
		return nil
	}
	traces, err := t.formerTraces(ctx)
	if err != nil || len(traces) == 0 {
		return err
	}
	return fail(document.Reinstall, "not wiped: the first system's %s survives", strings.Join(traces, ", "))
}
