package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/macfleet/macfleet/internal/converge/document"
)

const (
	currentLink = document.InstallDir + "/current"
	nextLink    = document.InstallDir + "/next"
	agentName   = "tart-kubelet"
)

// agent puts the wanted build into a slot of its own and points "current" at it.
func (t *target) agent() step {
	build := t.desired.Agent.SHA256
	return step{
		name: "agent",
		about: "Installs the agent's build as " + document.InstallDir + "/<SHA-256>/" + agentName + ", root's, with its code " +
			"signature verified (and renewed only when it is missing or invalid), and points the links `current` and " +
			document.AgentLink + " at it. A build is never written over: each has a file of its own. The build before it is kept.",
		undo: "Remove " + document.AgentLink + " and " + document.InstallDir + ", after both jobs are booted out.",
		check: func(ctx context.Context) ([]string, error) {
			if err := t.refuseBadUnproved(); err != nil {
				return nil, err
			}
			var all []string
			sound, err := t.slotSound(ctx, build)
			if err != nil {
				return nil, err
			}
			if !sound {
				all = append(all, "build "+build+" is not installed")
			}
			links, err := t.agentLinks(ctx)
			if err != nil {
				return nil, err
			}
			for _, l := range links {
				target, err := t.linkTarget(ctx, l.path)
				if err != nil {
					return nil, err
				}
				if target != l.target {
					all = append(all, l.path+" points elsewhere")
				}
			}
			return all, nil
		},
		act: t.installAgent,
		takeBack: func(ctx context.Context) error {
			paths := []string{document.InstallDir}
			if target, err := t.linkTarget(ctx, document.AgentLink); err == nil && target == document.CurrentAgent {
				paths = append(paths, document.AgentLink)
			}
			return t.remove(paths...)
		},
	}
}

// refuseBadUnproved refuses a build that failed here, unless it is the one that
// was proved last.
func (t *target) refuseBadUnproved() error {
	p, err := t.proved()
	if err != nil || p.Build == t.desired.Agent.SHA256 {
		return err
	}
	return t.refuseBad()
}

type link struct{ path, target string }

// agentLinks are the links to the wanted build. Where the Mac is taken over, the
// first system's program stays until its agent is retired.
func (t *target) agentLinks(ctx context.Context) ([]link, error) {
	links := []link{{currentLink, t.desired.Agent.SHA256}}
	if t.takesOver() {
		if former, err := t.formerProgram(ctx); former || err != nil {
			return links, err
		}
	}
	return append(links, link{document.AgentLink, document.CurrentAgent}), nil
}

// linkTarget is where a link points, empty for anything else and for nothing.
func (t *target) linkTarget(ctx context.Context, name string) (string, error) {
	info, err := t.Mac.Files.Stat(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("looking at %s: %w", name, err)
	}
	return info.Target, nil
}

func (t *target) installAgent(ctx context.Context) error {
	build := t.desired.Agent.SHA256
	if err := t.prune(ctx, build); err != nil {
		return err
	}
	// From the file that runs and from nowhere else: whoever may run only the
	// installed build as root must not get others installed by it.
	if err := t.ensureSlot(ctx, build, t.Self); err != nil {
		return err
	}
	if err := t.oweAll(ctx); err != nil {
		return err
	}
	links, err := t.agentLinks(ctx)
	if err != nil {
		return err
	}
	for _, l := range links {
		if target, err := t.linkTarget(ctx, l.path); err == nil && target == l.target {
			continue
		}
		if err := t.Mac.Files.Link(l.path, l.target); err != nil {
			return fmt.Errorf("linking %s: %w", l.path, err)
		}
	}
	return nil
}

// prune makes room: it removes the slots that nothing goes back or forward to.
func (t *target) prune(ctx context.Context, wanted string) error {
	keep := map[string]bool{wanted: true}
	p, err := t.proved()
	if err != nil {
		return err
	}
	keep[p.Build] = true
	for _, name := range []string{currentLink, nextLink} {
		target, err := t.linkTarget(ctx, name)
		if err != nil {
			return err
		}
		keep[path.Base(target)] = true
	}
	names, err := t.Mac.Files.List(document.InstallDir)
	if err != nil {
		return fmt.Errorf("listing %s: %w", document.InstallDir, err)
	}
	for _, name := range names {
		if document.IsSHA256(name) && !keep[name] {
			if err := t.Mac.Files.Remove(slotDir(name)); err != nil {
				return fmt.Errorf("removing build %s, which nothing needs: %w", name, err)
			}
		}
	}
	return nil
}
