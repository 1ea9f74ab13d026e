package converge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	currentLink = document.InstallDir + "/current"
	agentName   = "tart-kubelet"
)

var program = macos.Attr{Mode: 0o755, Owner: root, Group: wheel}

func slotDir(build string) string  { return path.Join(document.InstallDir, build) }
func slotFile(build string) string { return path.Join(slotDir(build), agentName) }

// agent puts the wanted build into a slot of its own and points "current" at it.
// A slot's file is never written again: macOS keeps the signature of an inode in
// memory and kills a program whose bytes changed under it.
func (t *target) agent() step {
	build := t.desired.Agent.SHA256
	return step{
		name: "agent",
		check: func(ctx context.Context) ([]string, error) {
			var all []string
			sound, err := t.slotSound(ctx, build)
			if err != nil {
				return nil, err
			}
			if !sound {
				all = append(all, "build "+build+" is not installed")
			}
			for _, l := range t.agentLinks() {
				info, err := t.Mac.Files.Stat(ctx, l.path)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return nil, fmt.Errorf("looking at %s: %w", l.path, err)
				}
				if info.Target != l.target {
					all = append(all, l.path+" points elsewhere")
				}
			}
			return all, nil
		},
		act: t.installAgent,
	}
}

type link struct{ path, target string }

func (t *target) agentLinks() []link {
	return []link{
		{currentLink, t.desired.Agent.SHA256},
		{document.AgentLink, document.CurrentAgent},
	}
}

func (t *target) installAgent(ctx context.Context) error {
	build := t.desired.Agent.SHA256
	sound, err := t.slotSound(ctx, build)
	if err != nil {
		return err
	}
	if !sound {
		if err := t.fillSlot(ctx, build); err != nil {
			return err
		}
	}
	if err := t.owe(ctx, owedRestart); err != nil {
		return err
	}
	for _, l := range t.agentLinks() {
		if info, err := t.Mac.Files.Stat(ctx, l.path); err == nil && info.Target == l.target {
			continue
		}
		if err := t.Mac.Files.Link(l.path, l.target); err != nil {
			return fmt.Errorf("linking %s: %w", l.path, err)
		}
	}
	return nil
}

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
		if info.Attr != program {
			return false, nil
		}
	}
	sum, err := t.hash(slotFile(build))
	if err != nil {
		return false, fmt.Errorf("hashing %s: %w", slotFile(build), err)
	}
	return sum == build, nil
}

func (t *target) fillSlot(ctx context.Context, build string) error {
	source, err := t.source(build)
	if err != nil {
		return err
	}
	if err := t.Mac.Files.MakeDir(ctx, slotDir(build), program); err != nil {
		return fmt.Errorf("making %s: %w", slotDir(build), err)
	}
	f, err := t.Mac.Files.Open(source)
	if err != nil {
		return fmt.Errorf("opening the build: %w", err)
	}
	defer func() { _ = f.Close() }()
	return t.Mac.Files.Replace(ctx, slotFile(build), macos.Content{Data: f, Attr: program})
}

// source finds a file with the build's bytes: the one this program was started
// from, or a staged one.
func (t *target) source(build string) (string, error) {
	candidates := []string{t.Self}
	if t.Home != "" {
		candidates = append(candidates, path.Join(t.Home, document.StagingDir, build))
	}
	for _, c := range candidates {
		if c == "" {
			continue
		}
		// A candidate that cannot be read is as good as one that is not there.
		if sum, err := t.hash(c); err == nil && sum == build {
			return c, nil
		}
	}
	return "", fail(document.Retry, "build %s is not staged on this Mac", build)
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
