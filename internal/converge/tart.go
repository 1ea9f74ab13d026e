package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	// tartDir holds one application a version, and the link "current".
	tartDir     = "/usr/local/libexec/macfleet-tart"
	tartCurrent = tartDir + "/current"
	// tartCommand is where the agent and people find it.
	tartCommand = "/usr/local/bin/tart"
	// tartBrewed is where a package manager puts it.
	tartBrewed  = "/opt/homebrew/bin/tart"
	tartArchive = tartDir + "/download.tar.gz"
)

// tartWrapper starts the program inside its bundle, where its entitlements are
// found. The current version is looked up at each start.
var tartWrapper = file{
	tartCommand,
	[]byte("#!/bin/sh\nexec " + tartCurrent + "/Contents/MacOS/tart \"$@\"\n"),
	program,
}

func tartBundle(version string) string { return path.Join(tartDir, "tart-"+version+".app") }

// tart installs the wanted version beside those there were. A guest that runs keeps
// the one it was started with.
func (t *target) tart() step {
	return step{
		name:  "tart",
		about: "Installs the release of tart that the profile names: downloads it, compares its SHA-256, unpacks it into `" + tartDir + "`, verifies its code signature, and that the team signed it that the profile may name, and points `" + tartCommand + "` at it. The version before is kept. Without one in the profile, tart must be there already.",
		undo:  "Remove `" + tartDir + "` and `" + tartCommand + "`, or name the version before in the profile.",
		check: func(ctx context.Context) ([]string, error) {
			if t.desired.Mac.Tart == nil {
				return nil, t.tartThere(ctx)
			}
			return t.tartDiffers(ctx, *t.desired.Mac.Tart)
		},
		act: func(ctx context.Context) error { return t.installTart(ctx, *t.desired.Mac.Tart) },
	}
}

// tartThere fails when the image has no tart.
func (t *target) tartThere(ctx context.Context) error {
	for _, name := range []string{tartCommand, tartBrewed} {
		there, err := t.exists(ctx, name)
		if err != nil {
			return fmt.Errorf("looking for %s: %w", name, err)
		}
		if there {
			return nil
		}
	}
	return fail(document.Human, "tart is missing: it is neither in /usr/local/bin nor in /opt/homebrew/bin. Name a release in the profile, or install it")
}

func (t *target) tartDiffers(ctx context.Context, wanted document.Tart) ([]string, error) {
	version := wanted.Version
	sound, err := t.tartSound(ctx, wanted)
	if err != nil {
		return nil, err
	}
	var all []string
	if !sound {
		all = append(all, "tart "+version+" is not installed")
	}
	info, err := t.Mac.Files.Stat(ctx, tartCurrent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking at %s: %w", tartCurrent, err)
	}
	if info.Target != path.Base(tartBundle(version)) {
		all = append(all, "another tart is the current one")
	}
	wrapper, err := t.differing(ctx, tartWrapper)
	return append(all, wrapper...), err
}

// tartSound reports whether the version is there, whole and signed as wanted.
func (t *target) tartSound(ctx context.Context, wanted document.Tart) (bool, error) {
	there, err := t.exists(ctx, tartBundle(wanted.Version))
	if err != nil || !there {
		return false, err
	}
	err = t.Mac.Signatures.VerifyBundle(ctx, tartBundle(wanted.Version), wanted.TeamID)
	var refused *macos.SignatureError
	if errors.As(err, &refused) {
		return false, nil
	}
	return err == nil, err
}

func (t *target) installTart(ctx context.Context, wanted document.Tart) error {
	if err := t.Mac.Files.MakeDir(ctx, tartDir, program); err != nil {
		return fmt.Errorf("making %s: %w", tartDir, err)
	}
	before, err := t.Mac.Files.Stat(ctx, tartCurrent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking at %s: %w", tartCurrent, err)
	}
	sound, err := t.tartSound(ctx, wanted)
	if err != nil {
		return err
	}
	if !sound {
		if err := t.fetchTart(ctx, wanted); err != nil {
			return err
		}
	}
	bundle := path.Base(tartBundle(wanted.Version))
	if before.Target != bundle {
		if err := t.Mac.Files.Link(tartCurrent, bundle); err != nil {
			return fmt.Errorf("linking %s: %w", tartCurrent, err)
		}
	}
	if err := write(ctx, t.Mac.Files, tartWrapper); err != nil {
		return err
	}
	return t.pruneTart(bundle, before.Target)
}

// fetchTart puts the version into its place. It is there whole or not at all.
func (t *target) fetchTart(ctx context.Context, wanted document.Tart) error {
	staged := tartBundle(wanted.Version) + ".tmp"
	for _, leftover := range []string{staged, tartArchive} {
		if err := t.Mac.Files.Remove(leftover); err != nil {
			return fmt.Errorf("removing %s: %w", leftover, err)
		}
	}
	if err := t.download(ctx, wanted.URL, wanted.SHA256, tartArchive); err != nil {
		return fmt.Errorf("downloading tart %s: %w", wanted.Version, err)
	}
	if err := t.unpack(ctx, tartArchive, "tart.app", staged); err != nil {
		return fmt.Errorf("unpacking tart %s: %w", wanted.Version, err)
	}
	err := t.Mac.Signatures.VerifyBundle(ctx, staged, wanted.TeamID)
	var refused *macos.SignatureError
	if errors.As(err, &refused) && refused.Team != "" {
		return fail(document.Human, "tart %s is not signed by team %s, and was not installed: mend the source or the teamID in the profile: %w",
			wanted.Version, refused.Team, err)
	}
	if errors.As(err, &refused) {
		return fail(document.Human, "tart %s is not signed as it should be, and was not installed: %w. Look at the URL in the profile", wanted.Version, err)
	}
	if err != nil {
		return fmt.Errorf("verifying tart %s: %w", wanted.Version, err)
	}
	// Only now: guests may be started by the one that is there, whatever is wrong with it.
	if err := t.Mac.Files.Remove(tartBundle(wanted.Version)); err != nil {
		return fmt.Errorf("removing %s: %w", tartBundle(wanted.Version), err)
	}
	if err := t.Mac.Files.Rename(staged, tartBundle(wanted.Version)); err != nil {
		return fmt.Errorf("putting tart %s into its place: %w", wanted.Version, err)
	}
	return t.Mac.Files.Remove(tartArchive)
}

// pruneTart keeps the current version and the one before.
func (t *target) pruneTart(keep ...string) error {
	names, err := t.Mac.Files.List(tartDir)
	if err != nil {
		return fmt.Errorf("listing %s: %w", tartDir, err)
	}
	// Without a change of version it is not known which one came before.
	if keep[0] == keep[1] {
		return nil
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "tart-") || name == keep[0] || name == keep[1] {
			continue
		}
		if err := t.Mac.Files.Remove(path.Join(tartDir, name)); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	return nil
}
