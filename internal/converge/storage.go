package converge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	volumeFile = document.StateDir + "/volume.json"
	// noIndex keeps Spotlight from reading guests' disks.
	noIndex = document.GuestVolume + "/.metadata_never_index"
	// guestDir is where tart keeps machines and images on the volume.
	guestDir = document.GuestVolume + "/tart"
)

// volumeNote says which volume is ours. It is known by its UUID: names repeat.
type volumeNote struct {
	// UUID is empty between the decision to make the volume and its making.
	UUID       string `json:"uuid,omitempty"`
	QuotaBytes int64  `json:"quotaBytes"`
}

// storage gives guests and images a volume of their own with a ceiling, so that
// they can fill it and not the Mac's disk.
func (t *target) storage() step {
	return step{
		name:  "storage",
		about: "Makes an APFS volume with a quota, once, at `" + document.GuestVolume + "`, when the profile asks for one. The volume is root's, the folders `tart` and `volumes` on it the console user's, and Spotlight leaves it alone. Its UUID is in `" + volumeFile + "`. It is never resized.",
		undo:  "Stop all guests and run `sudo diskutil apfs deleteVolume <UUID>`. What is on the volume is lost.",
		check: func(ctx context.Context) ([]string, error) {
			if err := t.homeStays(ctx); err != nil {
				return nil, err
			}
			s, err := t.storageState(ctx)
			return s.differs, err
		},
		// What it makes is the user's and root's, and looking again sees whether the
		// volume keeps that: one that ignores owners shows everything as anybody's.
		act:      t.makeVolume,
		takeBack: t.removeVolume,
	}
}

// homeStays fails while guests run that the document would part from their disks:
// with or without a volume decides where tart has them. It is asked before anything
// that tells the agent so is written.
func (t *target) homeStays(ctx context.Context) error {
	data, err := read(t.Mac.Files, document.ConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", document.ConfigFile, err)
	}
	var now document.AgentConfig
	if json.Unmarshal(data, &now) != nil || (now.Mac.GuestQuotaBytes > 0) == (t.desired.Mac.GuestQuotaBytes > 0) {
		return nil // a file that says nothing is written again by the config step
	}
	return t.noGuests(ctx, "a quota that comes or goes moves the place of their disks")
}

// storageState is the volume as it is.
type storageState struct {
	note    volumeNote
	noted   bool
	volume  macos.Volume
	differs []string
}

func (t *target) storageState(ctx context.Context) (storageState, error) {
	var s storageState
	if t.desired.Mac.GuestQuotaBytes == 0 {
		return s, nil
	}
	var err error
	if s.note, s.noted, err = t.volumeNote(); err != nil {
		return s, err
	}
	if s.noted && s.note.QuotaBytes != t.desired.Mac.GuestQuotaBytes {
		return s, fail(document.Human, "the volume for guests was made with a quota of %d bytes and is never resized, %d are wanted: put the old value back into the profile, or replace the Mac",
			s.note.QuotaBytes, t.desired.Mac.GuestQuotaBytes)
	}
	if s.note.UUID == "" {
		s.differs = []string{"there is no volume for guests"}
		return s, nil
	}
	s.volume, err = t.Mac.Volumes.Volume(ctx, s.note.UUID)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fail(document.Reinstall, "the volume for guests (%.64q) is gone, and all images with it: reinstall the Mac, or remove %s to have a new one made",
			s.note.UUID, volumeFile)
	}
	if err != nil {
		return s, fmt.Errorf("looking for the volume of guests: %w", err)
	}
	s.differs, err = t.volumeDiffers(ctx, s.volume)
	return s, err
}

// volumeDiffers looks at a volume that is ours.
func (t *target) volumeDiffers(ctx context.Context, v macos.Volume) ([]string, error) {
	switch v.Mount {
	case document.GuestVolume:
	case "":
		return []string{"the volume for guests is not mounted"}, nil
	default:
		return nil, fail(document.Human, "the volume for guests is mounted at %.64q and not at %s: unmount what is there, and mount volume %s again",
			v.Mount, document.GuestVolume, v.UUID)
	}
	var all []string
	if !v.Owners {
		all = append(all, "owners are ignored on the volume for guests")
	}
	for _, d := range t.volumeDirs() {
		differs, err := t.dirDiffers(ctx, d)
		if err != nil {
			return nil, err
		}
		if differs != "" {
			all = append(all, differs)
		}
	}
	hidden, err := t.differing(ctx, noIndexFile)
	return append(all, hidden...), err
}

var noIndexFile = file{noIndex, nil, macos.Attr{Mode: 0o644, Owner: root, Group: wheel}}

// volumeDirs are the folders on the volume, the upper one first: once it is root's,
// nobody can put anything else in the place of the lower ones.
func (t *target) volumeDirs() []dir {
	return []dir{
		{path: document.GuestVolume, attr: macos.Attr{Mode: 0o755, Owner: root, Group: wheel}},
		{path: guestDir, attr: macos.Attr{Mode: 0o700, Owner: t.desired.Host.User, Group: staff}},
		{path: document.PodVolumesDir, attr: macos.Attr{Mode: 0o700, Owner: t.desired.Host.User, Group: staff}},
	}
}

func (t *target) makeVolume(ctx context.Context) error {
	s, err := t.storageState(ctx)
	if err != nil {
		return err
	}
	if s.note.UUID == "" {
		if s.volume, err = t.addVolume(ctx, s.noted); err != nil {
			return err
		}
	}
	if s.volume.Mount == "" {
		if err := t.Mac.Volumes.Mount(ctx, s.volume.UUID); err != nil {
			return fmt.Errorf("mounting the volume for guests: %w", err)
		}
		if s.volume, err = t.Mac.Volumes.Volume(ctx, s.volume.UUID); err != nil {
			return fmt.Errorf("looking for the volume of guests: %w", err)
		}
	}
	return t.settleVolume(ctx, s.volume)
}

// addVolume makes the volume. It is noted before and after: a run that was cut off
// in between leaves a volume that has the name, the place and the quota, and the
// note says that we meant to make it.
func (t *target) addVolume(ctx context.Context, meant bool) (macos.Volume, error) {
	quota := t.desired.Mac.GuestQuotaBytes
	there, err := t.Mac.Volumes.Volume(ctx, document.GuestVolume)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := t.noteVolume(ctx, volumeNote{QuotaBytes: quota}); err != nil {
			return there, err
		}
		there, err = t.Mac.Volumes.Add(ctx, path.Base(document.GuestVolume), quota)
		if err != nil {
			return there, fmt.Errorf("making the volume for guests: %w", err)
		}
	case err != nil:
		return there, fmt.Errorf("looking at %s: %w", document.GuestVolume, err)
	case !meant, there.QuotaBytes != 0 && there.QuotaBytes != quota:
		return there, fail(document.Human, "a volume that we did not make (%.64q) is at %s: remove or rename it", there.UUID, document.GuestVolume)
	}
	return there, t.noteVolume(ctx, volumeNote{UUID: there.UUID, QuotaBytes: quota})
}

// settleVolume asserts who may do what on the mounted volume.
func (t *target) settleVolume(ctx context.Context, v macos.Volume) error {
	if v.Mount != document.GuestVolume {
		_, err := t.volumeDiffers(ctx, v)
		return err
	}
	if !v.Owners {
		if err := t.Mac.Volumes.EnableOwners(ctx, v.UUID); err != nil {
			return fmt.Errorf("having owners honoured on the volume for guests: %w", err)
		}
	}
	for _, d := range t.volumeDirs() {
		if err := t.makeDir(ctx, d); err != nil {
			return err
		}
	}
	return write(ctx, t.Mac.Files, noIndexFile)
}

// removeVolume deletes the volume that we made, and never another.
func (t *target) removeVolume(ctx context.Context) error {
	note, noted, err := t.volumeNote()
	if err != nil || !noted {
		return err
	}
	if note.UUID != "" {
		err := t.Mac.Volumes.Remove(ctx, note.UUID)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("deleting the volume for guests: %w", err)
		}
	}
	return t.Mac.Files.Remove(volumeFile)
}

func (t *target) volumeNote() (note volumeNote, noted bool, err error) {
	data, err := read(t.Mac.Files, volumeFile)
	if errors.Is(err, fs.ErrNotExist) {
		return note, false, nil
	}
	if err != nil {
		return note, false, fmt.Errorf("reading %s: %w", volumeFile, err)
	}
	if err := json.Unmarshal(data, &note); err != nil {
		return note, false, fail(document.Human, "%s says nothing, so that the volume for guests is unknown: write {\"uuid\": …, \"quotaBytes\": …} into it, or reinstall the Mac", volumeFile)
	}
	return note, true, nil
}

func (t *target) noteVolume(ctx context.Context, note volumeNote) error {
	data, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encoding which volume is ours: %w", err)
	}
	return write(ctx, t.Mac.Files, file{volumeFile, append(data, '\n'), macos.Attr{Mode: 0o600, Owner: root, Group: wheel}})
}
