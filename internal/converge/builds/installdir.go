// Package builds keeps the agent's builds on this Mac: each in an install dir of its
// own, which of them was healthy last, and which failed. Each has an
// inode of its own, too, so that no signature that macOS cached can belong to other bytes.
package builds

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
	"github.com/macfleet/macfleet/internal/converge/step"
)

const (
	// CurrentLink points to the install dir of the build that the jobs start.
	CurrentLink = document.InstallDir + "/current"
	// NextLink points to that of a build which upgrade has installed.
	NextLink = document.InstallDir + "/next"
	// ProgramName is the name of the agent's program.
	ProgramName = "tart-kubelet"
)

// Store is where the builds are.
type Store struct{ *step.Env }

var program = step.RootAttr(0o755)

// An install dir is named by the SHA-256 of the build that was asked for. Its
// program is never written again once it has its name: macOS keeps the signature
// of an inode in memory and kills a program whose bytes changed under it.
func installDir(build string) string  { return path.Join(document.InstallDir, build) }
func programFile(build string) string { return path.Join(installDir(build), ProgramName) }

// incoming is where a build is looked at before it gets the program's name.
func incoming(build string) string { return path.Join(installDir(build), "incoming") }

// resigned remembers the SHA-256 of a program whose signature had to be renewed:
// its bytes are no longer those that the install dir is named by.
func resigned(build string) string { return path.Join(installDir(build), "resigned") }

var resignedAttr = step.RootAttr(0o644)

// Sound reports whether the install dir holds the whole build, executable by all
// and writable by root only.
func (s Store) Sound(ctx context.Context, build string) (bool, error) {
	for _, p := range []string{installDir(build), programFile(build)} {
		info, err := s.Mac.Files.Stat(ctx, p)
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
	sum, err := s.hash(programFile(build))
	if err != nil {
		return false, fmt.Errorf("hashing %s: %w", programFile(build), err)
	}
	if sum == build {
		return true, nil
	}
	differs, err := s.Differs(ctx, step.File{Path: resigned(build), Data: []byte(sum), Attr: resignedAttr})
	return err == nil && differs == "", err
}

// Prune makes room: it removes the install dirs that nothing goes back or forward to.
func (s Store) Prune(ctx context.Context, wanted string) error {
	keep := map[string]bool{wanted: true}
	p, err := s.LastGood()
	if err != nil {
		return err
	}
	keep[p.Build] = true
	for _, name := range []string{CurrentLink, NextLink} {
		target, err := s.LinkTarget(ctx, name)
		if err != nil {
			return err
		}
		keep[path.Base(target)] = true
	}
	names, err := s.Mac.Files.List(document.InstallDir)
	if err != nil {
		return fmt.Errorf("listing %s: %w", document.InstallDir, err)
	}
	for _, name := range names {
		if document.IsSHA256(name) && !keep[name] {
			if err := s.Mac.Files.Remove(installDir(name)); err != nil {
				return fmt.Errorf("removing build %s, which nothing needs: %w", name, err)
			}
		}
	}
	return nil
}

// Install fills the build's install dir from the file, unless it is sound.
func (s Store) Install(ctx context.Context, build, from string) error {
	sound, err := s.Sound(ctx, build)
	if err != nil || sound {
		return err
	}
	if err := s.fillInstallDir(ctx, build, from); err != nil {
		return err
	}
	if sound, err = s.Sound(ctx, build); err != nil || sound {
		return err
	}
	return fmt.Errorf("build %s did not arrive whole in %s", build, installDir(build))
}

// fillInstallDir copies the build into root's hands first and looks at the copy, since
// the staged file is the user's, who can change it at any time.
func (s Store) fillInstallDir(ctx context.Context, build, from string) error {
	if err := s.holds(from, build); err != nil {
		return err
	}
	if err := s.Mac.Files.MakeDir(ctx, installDir(build), program); err != nil {
		return fmt.Errorf("making %s: %w", installDir(build), err)
	}
	if err := s.copyFile(ctx, from, incoming(build)); err != nil {
		return fmt.Errorf("copying the build: %w", err)
	}
	if err := s.admit(ctx, build); err != nil {
		return errors.Join(err, s.Mac.Files.Remove(incoming(build)))
	}
	return nil
}

// admit gives the incoming file the program's name, once it deserves it.
func (s Store) admit(ctx context.Context, build string) error {
	from := incoming(build)
	if sum, err := s.hash(from); err != nil || sum != build {
		return errors.Join(err, step.Fail(document.Retry, "build %s changed while it was copied: stage it again", build))
	}
	if err := s.isProgram(build); err != nil {
		return err
	}
	sum, err := s.sign(ctx, from)
	if err != nil {
		return err
	}
	if sum == build {
		err = s.Mac.Files.Remove(resigned(build))
	} else {
		err = s.keepResigned(ctx, build, sum)
	}
	if err != nil {
		return err
	}
	return s.Mac.Files.Rename(from, programFile(build))
}

// keepResigned copies the file over itself, which asserts owner and mode, whatever
// codesign left, and remembers what the program's bytes are.
func (s Store) keepResigned(ctx context.Context, build, sum string) error {
	if err := s.copyFile(ctx, incoming(build), incoming(build)); err != nil {
		return err
	}
	return step.Write(ctx, s.Mac.Files, step.File{Path: resigned(build), Data: []byte(sum), Attr: resignedAttr})
}

// identifier is what a renewed signature says the program is. macOS ties what it
// allows a program to it.
const identifier = "dev.macfleet.tart-kubelet"

// sign verifies the signature and renews it only where it is missing or invalid:
// a valid one keeps the bytes that the build is named by. It returns the SHA-256
// of what is there in the end.
func (s Store) sign(ctx context.Context, name string) (string, error) {
	err := s.Mac.Signatures.Verify(ctx, name)
	var invalid *macos.SignatureError
	if err != nil && !errors.As(err, &invalid) {
		return "", fmt.Errorf("verifying the code signature of the build: %w", err)
	}
	if invalid != nil {
		if err := s.Mac.Signatures.Sign(ctx, name, identifier); err != nil {
			return "", fmt.Errorf("renewing the code signature of the build (%w): %w", invalid, err)
		}
		if err := s.Mac.Signatures.Verify(ctx, name); err != nil {
			return "", step.Fail(document.Human, "the build cannot be signed for this Mac: push another one: %w", err)
		}
	}
	return s.hash(name)
}

// The first two words of a 64-bit Mach-O file for arm64, little-endian: magic
// number and CPU type, from mach-o/loader.h and mach/machine.h.
const (
	machO64  = 0xfeedfacf
	cpuARM64 = 0x0100000c
)

// isProgram refuses what is no program for this Mac, however well it is hashed.
func (s Store) isProgram(build string) error {
	f, err := s.Mac.Files.Open(incoming(build))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var head [8]byte
	if _, err := io.ReadFull(f, head[:]); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("reading build %s: %w", build, err)
	}
	if binary.LittleEndian.Uint32(head[:4]) != machO64 || binary.LittleEndian.Uint32(head[4:]) != cpuARM64 {
		return step.Fail(document.Human, "build %s is no program for this Mac: push a darwin/arm64 build", build)
	}
	return nil
}

func (s Store) copyFile(ctx context.Context, from, to string) error {
	f, err := s.Mac.Files.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// What was looked at may have been replaced since: nothing endless fills root's disk.
	return s.Mac.Files.Replace(ctx, to, macos.Content{Data: io.LimitReader(f, maxBuild), Attr: program})
}

// maxBuild is more than any build has, in bytes: the agent is held to 45 MB.
const maxBuild = 256 << 20

// holds says why the file is not the build.
func (s Store) holds(name, build string) error {
	sum, err := s.hash(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return step.Fail(document.Retry, "build %s is not on this Mac: upload it, and run that file or `upgrade`", build)
	case err != nil:
		return fmt.Errorf("reading build %s: %w", build, err)
	case sum != build:
		return step.Fail(document.Retry, "%s is not build %s: upload it again, and run that file or `upgrade`", name, build)
	}
	return nil
}

func (s Store) hash(name string) (string, error) {
	f, err := s.Mac.Files.Open(name)
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
