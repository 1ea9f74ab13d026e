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
	"github.com/macfleet/macfleet/internal/converge/step"
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

// volume is the note of it. Without it, nobody knows which volume may be removed.
var volume = step.Note[volumeNote]{Path: volumeFile, What: volumeFile, Damaged: func() error {
	return step.Fail(document.Human, "%s says nothing, so that the volume for guests is unknown: write {\"uuid\": …, \"quotaBytes\": …} into it, or reinstall the Mac", volumeFile)
}}

// storage gives guests and images a volume of their own with a ceiling, so that
// they can fill it and not the Mac's disk.
type storage struct{ *step.Env }

func (x storage) step() step.Step {
	return step.Step{
		Name:  "storage",
		About: "Makes an APFS volume with a quota, once, at `" + document.GuestVolume + "`, when the profile asks for one. The volume is root's, the folders `tart` and `volumes` on it the console user's, and Spotlight leaves it alone. Its UUID is in `" + volumeFile + "`. It is never resized.",
		Undo:  "Stop all guests and run `sudo diskutil apfs deleteVolume <UUID>`. What is on the volume is lost.",
		Check: func(ctx context.Context) ([]string, error) {
			if err := x.requireHomeUnmoved(ctx); err != nil {
				return nil, err
			}
			s, err := x.storageState(ctx)
			return s.differs, err
		},
		// What it makes is the user's and root's, and looking again sees whether the
		// volume keeps that: one that ignores owners shows everything as anybody's.
		Act:      x.makeVolume,
		TakeBack: x.removeVolume,
	}
}

// requireHomeUnmoved fails while guests run that the document would part from their disks:
// with or without a volume decides where tart has them. It is asked before anything
// that tells the agent so is written.
func (x storage) requireHomeUnmoved(ctx context.Context) error {
	data, err := step.Read(x.Mac.Files, document.ConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", document.ConfigFile, err)
	}
	var now document.AgentConfig
	if json.Unmarshal(data, &now) != nil || (now.Mac.GuestQuotaBytes > 0) == (x.Desired.Mac.GuestQuotaBytes > 0) {
		return nil // a file that says nothing is written again by the config step
	}
	return x.NoGuests(ctx, "a quota that comes or goes moves the place of their disks")
}

// storageState is the volume as it is.
type storageState struct {
	note    volumeNote
	noted   bool
	volume  macos.Volume
	differs []string
}

func (x storage) storageState(ctx context.Context) (storageState, error) {
	var s storageState
	if x.Desired.Mac.GuestQuotaBytes == 0 {
		return s, nil
	}
	var err error
	if s.note, s.noted, err = volume.Find(x.Mac.Files); err != nil {
		return s, err
	}
	if s.noted && s.note.QuotaBytes != x.Desired.Mac.GuestQuotaBytes {
		return s, step.Fail(document.Human, "the volume for guests was made with a quota of %d bytes and is never resized, %d are wanted: put the old value back into the profile, or replace the Mac",
			s.note.QuotaBytes, x.Desired.Mac.GuestQuotaBytes)
	}
	if s.note.UUID == "" {
		s.differs = []string{"there is no volume for guests"}
		return s, nil
	}
	s.volume, err = x.Mac.Volumes.Volume(ctx, s.note.UUID)
	if errors.Is(err, fs.ErrNotExist) {
		return s, step.Fail(document.Reinstall, "the volume for guests (%.64q) is gone, and all images with it: reinstall the Mac, or remove %s to have a new one made",
			s.note.UUID, volumeFile)
	}
	if err != nil {
		return s, fmt.Errorf("looking for the volume of guests: %w", err)
	}
	s.differs, err = x.volumeDiffers(ctx, s.volume)
	return s, err
}

// volumeDiffers looks at a volume that is ours.
func (x storage) volumeDiffers(ctx context.Context, v macos.Volume) ([]string, error) {
	switch v.Mount {
	case document.GuestVolume:
	case "":
		return []string{"the volume for guests is not mounted"}, nil
	default:
		return nil, step.Fail(document.Human, "the volume for guests is mounted at %.64q and not at %s: unmount what is there, and mount volume %s again",
			v.Mount, document.GuestVolume, v.UUID)
	}
	var all []string
	if !v.Owners {
		all = append(all, "owners are ignored on the volume for guests")
	}
	dirs, err := x.DirsDiffer(ctx, x.volumeDirs())
	if err != nil {
		return nil, err
	}
	all = append(all, dirs...)
	hidden, err := x.Differing(ctx, noIndexFile)
	return append(all, hidden...), err
}

var noIndexFile = step.File{Path: noIndex, Data: nil, Attr: step.RootAttr(0o644)}

// volumeDirs are the folders on the volume, the upper one first: once it is root's,
// nobody can put anything else in the place of the lower ones.
func (x storage) volumeDirs() []step.Dir {
	return []step.Dir{
		{Path: document.GuestVolume, Attr: step.RootAttr(0o755)},
		{Path: guestDir, Attr: step.StaffAttr(x.Desired.Host.User, 0o700)},
		{Path: document.PodVolumesDir, Attr: step.StaffAttr(x.Desired.Host.User, 0o700)},
	}
}

func (x storage) makeVolume(ctx context.Context) error {
	s, err := x.storageState(ctx)
	if err != nil {
		return err
	}
	if s.note.UUID == "" {
		if s.volume, err = x.addVolume(ctx, s.noted); err != nil {
			return err
		}
	}
	if s.volume.Mount == "" {
		if err := x.Mac.Volumes.Mount(ctx, s.volume.UUID); err != nil {
			return fmt.Errorf("mounting the volume for guests: %w", err)
		}
		if s.volume, err = x.Mac.Volumes.Volume(ctx, s.volume.UUID); err != nil {
			return fmt.Errorf("looking for the volume of guests: %w", err)
		}
	}
	return x.assertVolume(ctx, s.volume)
}

// addVolume makes the volume. It is noted before and after: a run that was cut off
// in between leaves a volume that has the name, the place and the quota, and the
// note says that we meant to make it.
func (x storage) addVolume(ctx context.Context, meant bool) (macos.Volume, error) {
	quota := x.Desired.Mac.GuestQuotaBytes
	there, err := x.Mac.Volumes.Volume(ctx, document.GuestVolume)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := volume.Write(ctx, x.Mac.Files, volumeNote{QuotaBytes: quota}); err != nil {
			return there, err
		}
		there, err = x.Mac.Volumes.Add(ctx, path.Base(document.GuestVolume), quota)
		if err != nil {
			return there, fmt.Errorf("making the volume for guests: %w", err)
		}
	case err != nil:
		return there, fmt.Errorf("looking at %s: %w", document.GuestVolume, err)
	case !meant, there.QuotaBytes != 0 && there.QuotaBytes != quota:
		return there, step.Fail(document.Human, "a volume that we did not make (%.64q) is at %s: remove or rename it", there.UUID, document.GuestVolume)
	}
	return there, volume.Write(ctx, x.Mac.Files, volumeNote{UUID: there.UUID, QuotaBytes: quota})
}

// assertVolume asserts who may do what on the mounted volume.
func (x storage) assertVolume(ctx context.Context, v macos.Volume) error {
	if v.Mount != document.GuestVolume {
		_, err := x.volumeDiffers(ctx, v)
		return err
	}
	if !v.Owners {
		if err := x.Mac.Volumes.EnableOwners(ctx, v.UUID); err != nil {
			return fmt.Errorf("having owners honoured on the volume for guests: %w", err)
		}
	}
	if err := x.MakeDirs(ctx, x.volumeDirs()); err != nil {
		return err
	}
	return step.Write(ctx, x.Mac.Files, noIndexFile)
}

// removeVolume deletes the volume that we made, and never another.
func (x storage) removeVolume(ctx context.Context) error {
	note, noted, err := volume.Find(x.Mac.Files)
	if err != nil || !noted {
		return err
	}
	if err := x.deleteVolume(ctx, note.UUID); err != nil {
		return err
	}
	return x.Mac.Files.Remove(volumeFile)
}

// deleteVolume looks for the volume first: diskutil fails of a volume that is gone already as it
// fails of one that it cannot delete. An empty uuid: none was made.
func (x storage) deleteVolume(ctx context.Context, uuid string) error {
	if uuid == "" {
		return nil
	}
	_, err := x.Mac.Volumes.Volume(ctx, uuid)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the volume of guests: %w", err)
	}
	if err := x.Mac.Volumes.Remove(ctx, uuid); err != nil {
		return fmt.Errorf("deleting the volume for guests: %w", err)
	}
	return nil
}
