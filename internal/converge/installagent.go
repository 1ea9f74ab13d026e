package converge

import (
	"context"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/builds"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/step"
	"github.com/macfleet/macfleet/internal/converge/takeover"
)

// agent installs the build. self is the file that this program was started from.
type agent struct {
	*step.Env
	self string
}

func (a agent) builds() builds.Store { return builds.Store{Env: a.Env} }

// step puts the wanted build into an install dir of its own and points "current" at it.
func (a agent) step() step.Step {
	build := a.Desired.Agent.SHA256
	return step.Step{
		Name: "agent",
		About: "Installs the agent's build as " + document.InstallDir + "/<SHA-256>/" + builds.ProgramName + ", root's, with its code " +
			"signature verified (and renewed only when it is missing or invalid), and points the links `current` and " +
			document.AgentLink + " at it. A build is never written over: each has a file of its own. The build before it is kept.",
		Undo: "Remove " + document.AgentLink + " and " + document.InstallDir + ", after both jobs are booted out.",
		Check: func(ctx context.Context) ([]string, error) {
			if err := a.builds().RefuseFailed(); err != nil {
				return nil, err
			}
			var all []string
			sound, err := a.builds().Sound(ctx, build)
			if err != nil {
				return nil, err
			}
			if !sound {
				all = append(all, "build "+build+" is not installed")
			}
			links, err := a.agentLinks(ctx)
			if err != nil {
				return nil, err
			}
			for _, l := range links {
				target, err := a.LinkTarget(ctx, l.path)
				if err != nil {
					return nil, err
				}
				if target != l.target {
					all = append(all, l.path+" points elsewhere")
				}
			}
			return all, nil
		},
		Act: a.installAgent,
		TakeBack: func(ctx context.Context) error {
			paths := []string{document.InstallDir}
			if target, err := a.LinkTarget(ctx, document.AgentLink); err == nil && target == document.CurrentAgent {
				paths = append(paths, document.AgentLink)
			}
			return a.Remove(paths...)
		},
	}
}

type link struct{ path, target string }

// agentLinks are the links to the wanted build. Where the Mac is taken over, the
// first system's program stays until its agent is retired.
func (a agent) agentLinks(ctx context.Context) ([]link, error) {
	links := []link{{builds.CurrentLink, a.Desired.Agent.SHA256}}
	if a.TakeOver {
		if former, err := (takeover.Former{Env: a.Env}).Program(ctx); former || err != nil {
			return links, err
		}
	}
	return append(links, link{document.AgentLink, document.CurrentAgent}), nil
}

func (a agent) installAgent(ctx context.Context) error {
	build := a.Desired.Agent.SHA256
	if err := a.builds().Prune(ctx, build); err != nil {
		return err
	}
	// From the file that runs and from nowhere else: whoever may run only the
	// installed build as root must not get others installed by it.
	if err := a.builds().Install(ctx, build, a.self); err != nil {
		return err
	}
	if err := launchd.RequireRestarts(ctx, a.Mac.Files); err != nil {
		return err
	}
	links, err := a.agentLinks(ctx)
	if err != nil {
		return err
	}
	for _, l := range links {
		if target, err := a.LinkTarget(ctx, l.path); err == nil && target == l.target {
			continue
		}
		if err := a.Mac.Files.Link(l.path, l.target); err != nil {
			return fmt.Errorf("linking %s: %w", l.path, err)
		}
	}
	return nil
}
