package converge

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

var program = macos.Attr{Mode: 0o755, Owner: root, Group: wheel}

// A slot is a folder named by the SHA-256 of the build that was asked for. Its
// program is never written again once it has its name: macOS keeps the signature
// of an inode in memory and kills a program whose bytes changed under it.
func slotDir(build string) string  { return path.Join(document.InstallDir, build) }
func slotFile(build string) string { return path.Join(slotDir(build), agentName) }

// incoming is where a build is looked at before it gets the program's name.
func incoming(build string) string { return path.Join(slotDir(build), "incoming") }

// resigned remembers the SHA-256 of a program whose signature had to be renewed:
// its bytes are no longer those that the slot is named by.
func resigned(build string) string { return path.Join(slotDir(build), "resigned") }

var resignedAttr = macos.Attr{Mode: 0o644, Owner: root, Group: wheel}

// slotSound reports whether the slot holds the whole build, executable by all
// and writable by root only.
func (t *target) slotSound(ctx context.Context, build string) (bool, error) {
	for _, p := range []string{slotDir(build), slotFile(build)} {
		info, err := t.Mac.Files.Stat(ctx, p)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("looking at %s: %w", p, err)
		}
		if info.Attr != program || info.Target != "" {
			return false, nil
		}
	}
	sum, err := t.hash(slotFile(build))
	if err != nil {
		return false, fmt.Errorf("hashing %s: %w", slotFile(build), err)
	}
	if sum == build {
		return true, nil
	}
	differs, err := t.differs(ctx, file{resigned(build), []byte(sum), resignedAttr})
	return err == nil && differs == "", err
}

// ensureSlot fills the build's slot from the file, unless it is sound.
func (t *target) ensureSlot(ctx context.Context, build, from string) error {
	sound, err := t.slotSound(ctx, build)
	if err != nil || sound {
		return err
	}
	if err := t.fillSlot(ctx, build, from); err != nil {
		return err
	}
	if sound, err = t.slotSound(ctx, build); err != nil || sound {
		return err
	}
	return fmt.Errorf("build %s did not arrive whole in %s", build, slotDir(build))
}

// fillSlot copies the build into root's hands first and looks at the copy, since
// the staged file is the user's, who can change it at any time.
func (t *target) fillSlot(ctx context.Context, build, from string) error {
	if err := t.holds(from, build); err != nil {
		return err
	}
	if err := t.Mac.Files.MakeDir(ctx, slotDir(build), program); err != nil {
		return fmt.Errorf("making %s: %w", slotDir(build), err)
	}
	if err := t.copyFile(ctx, from, incoming(build)); err != nil {
		return fmt.Errorf("copying the build: %w", err)
	}
	if err := t.admit(ctx, build); err != nil {
		return errors.Join(err, t.Mac.Files.Remove(incoming(build)))
	}
	return nil
}

// admit gives the incoming file the program's name, once it deserves it.
func (t *target) admit(ctx context.Context, build string) error {
	from := incoming(build)
	if sum, err := t.hash(from); err != nil || sum != build {
		return errors.Join(err, fail(document.Retry, "build %s changed while it was copied: stage it again", build))
	}
	if err := t.isProgram(build); err != nil {
		return err
	}
	sum, err := t.sign(ctx, from)
	if err != nil {
		return err
	}
	if sum == build {
		err = t.Mac.Files.Remove(resigned(build))
	} else {
		err = t.keepResigned(ctx, build, sum)
	}
	if err != nil {
		return err
	}
	return t.Mac.Files.Rename(from, slotFile(build))
}

// keepResigned copies the file over itself, which asserts owner and mode, whatever
// codesign left, and remembers what the program's bytes are.
func (t *target) keepResigned(ctx context.Context, build, sum string) error {
	if err := t.copyFile(ctx, incoming(build), incoming(build)); err != nil {
		return err
	}
	return write(ctx, t.Mac.Files, file{resigned(build), []byte(sum), resignedAttr})
}

// identifier is what a renewed signature says the program is. macOS ties what it
// allows a program to it.
const identifier = "dev.macfleet.tart-kubelet"

// sign verifies the signature and renews it only where it is missing or invalid:
// a valid one keeps the bytes that the build is named by. It returns the SHA-256
// of what is there in the end.
func (t *target) sign(ctx context.Context, name string) (string, error) {
	err := t.Mac.Signatures.Verify(ctx, name)
	var invalid *macos.SignatureError
	if err != nil && !errors.As(err, &invalid) {
		return "", fmt.Errorf("verifying the code signature of the build: %w", err)
	}
	if invalid != nil {
		if err := t.Mac.Signatures.Sign(ctx, name, identifier); err != nil {
			return "", fmt.Errorf("renewing the code signature of the build (%w): %w", invalid, err)
		}
		if err := t.Mac.Signatures.Verify(ctx, name); err != nil {
			return "", fail(document.Human, "the build cannot be signed for this Mac: push another one: %w", err)
		}
	}
	return t.hash(name)
}

// The first two words of a 64-bit Mach-O file for arm64, little-endian: magic
// number and CPU type, from mach-o/loader.h and mach/machine.h.
const (
	machO64  = 0xfeedfacf
	cpuARM64 = 0x0100000c
)

// isProgram refuses what is no program for this Mac, however well it is hashed.
func (t *target) isProgram(build string) error {
	f, err := t.Mac.Files.Open(incoming(build))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var head [8]byte
	if _, err := io.ReadFull(f, head[:]); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("reading build %s: %w", build, err)
	}
	if binary.LittleEndian.Uint32(head[:4]) != machO64 || binary.LittleEndian.Uint32(head[4:]) != cpuARM64 {
		return fail(document.Human, "build %s is no program for this Mac: push a darwin/arm64 build", build)
	}
	return nil
}

func (t *target) copyFile(ctx context.Context, from, to string) error {
	f, err := t.Mac.Files.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// What was looked at may have been replaced since: nothing endless fills root's disk.
	return t.Mac.Files.Replace(ctx, to, macos.Content{Data: io.LimitReader(f, maxBuild), Attr: program})
}

// maxBuild is more than any build has, in bytes: the agent is held to 45 MB.
const maxBuild = 256 << 20

// staged is where a build is uploaded to.
func (t *target) staged(build string) string { return path.Join(t.Home, document.StagingDir, build) }

// holds says why the file is not the build.
func (t *target) holds(name, build string) error {
	sum, err := t.hash(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(document.Retry, "build %s is not on this Mac: upload it, and run that file or `upgrade`", build)
	case err != nil:
		return fmt.Errorf("reading build %s: %w", build, err)
	case sum != build:
		return fail(document.Retry, "%s is not build %s: upload it again, and run that file or `upgrade`", name, build)
	}
	return nil
}

func (t *target) hash(name string) (string, error) {
	f, err := t.Mac.Files.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
