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
	"github.com/macfleet/macfleet/internal/converge/step"
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
var tartWrapper = step.File{Path: tartCommand, Data: []byte("#!/bin/sh\nexec " + tartCurrent + "/Contents/MacOS/tart \"$@\"\n"), Attr: step.RootAttr(0o755)}

func tartBundle(version string) string { return path.Join(tartDir, "tart-"+version+".app") }

// tart installs the wanted version beside those there were. A guest that runs keeps
// the one it was started with.
type tart struct {
	*step.Env
	// fetch downloads what the document names by URL; nil: by HTTPS.
	fetch Fetch
}

func (x tart) step() step.Step {
	return step.Step{
		Name:  "tart",
		About: "Installs the release of tart that the profile names: downloads it, compares its SHA-256, unpacks it into `" + tartDir + "`, verifies its code signature, and that the team signed it that the profile may name, and points `" + tartCommand + "` at it. The version before is kept. Without one in the profile, tart must be there already.",
		Undo:  "Remove `" + tartDir + "` and `" + tartCommand + "`, or name the version before in the profile.",
		Check: func(ctx context.Context) ([]string, error) {
			if x.Desired.Mac.Tart == nil {
				return nil, x.requireTart(ctx)
			}
			return x.tartDiffers(ctx, *x.Desired.Mac.Tart)
		},
		Act: func(ctx context.Context) error { return x.installTart(ctx, *x.Desired.Mac.Tart) },
	}
}

// TartPlaces are where a tart may be that we did not install.
func TartPlaces() []string { return []string{tartCommand, tartBrewed} }

// requireTart fails when the image has no tart.
func (x tart) requireTart(ctx context.Context) error {
	for _, name := range TartPlaces() {
		there, err := x.Exists(ctx, name)
		if err != nil {
			return fmt.Errorf("looking for %s: %w", name, err)
		}
		if there {
			return nil
		}
	}
	return step.Fail(document.Human, "tart is missing: it is neither in /usr/local/bin nor in /opt/homebrew/bin. Name a release in the profile, or install it")
}

func (x tart) tartDiffers(ctx context.Context, wanted document.Tart) ([]string, error) {
	version := wanted.Version
	sound, err := x.tartSound(ctx, wanted)
	if err != nil {
		return nil, err
	}
	var all []string
	if !sound {
		all = append(all, "tart "+version+" is not installed")
	}
	info, err := x.Mac.Files.Stat(ctx, tartCurrent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking at %s: %w", tartCurrent, err)
	}
	if info.Target != path.Base(tartBundle(version)) {
		all = append(all, "another tart is the current one")
	}
	wrapper, err := x.Differing(ctx, tartWrapper)
	return append(all, wrapper...), err
}

// tartSound reports whether the version is there, whole and signed as wanted.
func (x tart) tartSound(ctx context.Context, wanted document.Tart) (bool, error) {
	there, err := x.Exists(ctx, tartBundle(wanted.Version))
	if err != nil || !there {
		return false, err
	}
	err = x.Mac.Signatures.VerifyBundle(ctx, tartBundle(wanted.Version), wanted.TeamID)
	if _, ok := errors.AsType[*macos.SignatureError](err); ok {
		return false, nil
	}
	return err == nil, err
}

func (x tart) installTart(ctx context.Context, wanted document.Tart) error {
	if err := x.Mac.Files.MakeDir(ctx, tartDir, step.RootAttr(0o755)); err != nil {
		return fmt.Errorf("making %s: %w", tartDir, err)
	}
	before, err := x.Mac.Files.Stat(ctx, tartCurrent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking at %s: %w", tartCurrent, err)
	}
	sound, err := x.tartSound(ctx, wanted)
	if err != nil {
		return err
	}
	if !sound {
		if err := x.fetchTart(ctx, wanted); err != nil {
			return err
		}
	}
	bundle := path.Base(tartBundle(wanted.Version))
	if before.Target != bundle {
		if err := x.Mac.Files.Link(tartCurrent, bundle); err != nil {
			return fmt.Errorf("linking %s: %w", tartCurrent, err)
		}
	}
	if err := step.Write(ctx, x.Mac.Files, tartWrapper); err != nil {
		return err
	}
	return x.pruneTart(bundle, before.Target)
}

// fetchTart puts the version into its place. It is there whole or not at all.
func (x tart) fetchTart(ctx context.Context, wanted document.Tart) error {
	staged := tartBundle(wanted.Version) + ".tmp"
	for _, leftover := range []string{staged, tartArchive} {
		if err := x.Mac.Files.Remove(leftover); err != nil {
			return fmt.Errorf("removing %s: %w", leftover, err)
		}
	}
	if err := x.download(ctx, wanted.URL, wanted.SHA256, tartArchive); err != nil {
		return fmt.Errorf("downloading tart %s: %w", wanted.Version, err)
	}
	if err := x.unpack(ctx, tartArchive, "tart.app", staged); err != nil {
		return fmt.Errorf("unpacking tart %s: %w", wanted.Version, err)
	}
	err := x.Mac.Signatures.VerifyBundle(ctx, staged, wanted.TeamID)
	var refused *macos.SignatureError
	if errors.As(err, &refused) && refused.Team != "" {
		return step.Fail(document.Human, "tart %s is not signed by team %s, and was not installed: mend the source or the teamID in the profile: %w",
			wanted.Version, refused.Team, err)
	}
	if errors.As(err, &refused) {
		return step.Fail(document.Human, "tart %s is not signed as it should be, and was not installed: %w. Look at the URL in the profile", wanted.Version, err)
	}
	if err != nil {
		return fmt.Errorf("verifying tart %s: %w", wanted.Version, err)
	}
	// Only now: guests may be started by the one that is there, whatever is wrong with it.
	if err := x.Mac.Files.Remove(tartBundle(wanted.Version)); err != nil {
		return fmt.Errorf("removing %s: %w", tartBundle(wanted.Version), err)
	}
	if err := x.Mac.Files.Rename(staged, tartBundle(wanted.Version)); err != nil {
		return fmt.Errorf("putting tart %s into its place: %w", wanted.Version, err)
	}
	return x.Mac.Files.Remove(tartArchive)
}

// pruneTart keeps the current version and the one before.
func (x tart) pruneTart(keep ...string) error {
	names, err := x.Mac.Files.List(tartDir)
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
		if err := x.Mac.Files.Remove(path.Join(tartDir, name)); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	return nil
}
