package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// journal marks the disk with the install epoch. A mark of another epoch or of
// another Machine, one that cannot be read, or builds of ours without any mark
// mean that the disk was not wiped between two owners; only a reinstall makes
// such a Mac clean.
func (t *target) journal() step {
	return step{
		name: "journal",
		about: "Marks the disk with the install epoch in " + document.JournalFile + ", and, in the first run of an epoch only, " +
			"installs the public key that new builds of the agent must be signed with: " + document.UpgradeKeyFile + ".",
		undo:     "Remove both files. A Mac without them is taken for a freshly installed one, as long as no build of ours is left on it.",
		note:     t.trusts,
		takeBack: func(context.Context) error { return t.remove(document.JournalFile, document.UpgradeKeyFile) },
		check: func(context.Context) ([]string, error) {
			marked, err := t.marked()
			if err != nil || marked {
				return nil, err
			}
			return []string{fmt.Sprintf("the disk is not marked with epoch %d", t.desired.Host.Epoch)}, nil
		},
		act: func(ctx context.Context) error {
			data, err := document.EncodeJournal(document.Journal{
				Epoch: t.desired.Host.Epoch, Name: t.desired.Host.Name, Created: t.Mac.Clock.Now().UTC(),
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

func (t *target) marked() (bool, error) {
	data, err := read(t.Mac.Files, document.JournalFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, t.unmarkedIsClean()
	}
	if err != nil {
		return false, fmt.Errorf("reading the journal: %w", err)
	}
	j, err := document.DecodeJournal(data)
	if err != nil {
		return false, fail(document.Reinstall, "not wiped: a journal survives that says nothing: %w", err)
	}
	want := t.desired.Host
	if j.Epoch != want.Epoch || j.Name != want.Name {
		return false, fail(document.Reinstall, "not wiped: the disk belongs to epoch %d of %.64q, not to epoch %d of %q",
			j.Epoch, j.Name, want.Epoch, want.Name)
	}
	return true, nil
}

// unmarkedIsClean fails when there are builds of ours on a disk without journal.
func (t *target) unmarkedIsClean() error {
	names, err := t.Mac.Files.List(document.InstallDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing %s: %w", document.InstallDir, err)
	}
	for _, name := range names {
		if document.IsSHA256(name) {
			return fail(document.Reinstall, "not wiped: build %s survives without a journal", name)
		}
	}
	return nil
}
