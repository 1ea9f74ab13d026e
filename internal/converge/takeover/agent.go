package takeover

import (
	"context"
	"errors"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// Replace starts our jobs where the first system's agent runs. That one is
// stopped last of all, when everything that ours needs is on the Mac, and never runs
// beside ours: both would start the same Pods. It comes back where ours does not come
// up. Guests are processes of their own, and run on.
func (x Former) Replace(ctx context.Context, start func(context.Context) error) error {
	former := formerJob(formerAgentLabel)
	installed, err := x.Exists(ctx, former.Plist)
	if err != nil {
		return err
	}
	if err := x.bootOut(ctx, former); err != nil {
		return err
	}
	failed := start(ctx)
	if failed == nil || !installed {
		return failed
	}
	return x.restoreFormer(ctx, former, failed)
}

// Left says that its agent is loaded.
func (x Former) Left(ctx context.Context) ([]string, error) {
	_, loaded, err := x.control().Print(ctx, formerAgentLabel)
	if err != nil || !loaded {
		return nil, err
	}
	return []string{formerAgentLabel + " is loaded"}, nil
}

// restoreFormer stops our agent and starts the first system's again.
func (x Former) restoreFormer(ctx context.Context, former launchd.Job, failed error) error {
	ours := launchd.AgentJob()
	_, loaded, err := x.control().Print(ctx, ours.Label)
	if err == nil && loaded {
		err = x.control().Unload(ctx, ours)
	}
	if err == nil {
		err = x.control().Load(ctx, former)
	}
	if err != nil {
		return errors.Join(failed, fmt.Errorf("starting %s again: %w", former.Label, err))
	}
	return step.Fail(step.ClassOf(failed), "%w; the first system's agent runs again", failed)
}

// AgentStep removes the first system's agent, once ours is healthy in its place.
func (x Former) AgentStep() step.Step {
	former := formerJob(formerAgentLabel)
	return step.Step{
		Name: "former-agent",
		About: "Only where the Mac is taken over: removes the launchd job " + formerAgentLabel + ", " + formerAgentDir + " with its kubeconfig, and its program " +
			document.AgentLink + ", which becomes a link to ours. The `launchd` step before has stopped it, and only after everything that our agent needs was on the Mac; it starts it again when ours does not come up. Its guests run on.",
		Undo: "None: install the first system again.",
		Check: func(ctx context.Context) ([]string, error) {
			all, err := x.There(ctx, former.Plist, formerAgentDir)
			if err != nil {
				return nil, err
			}
			program, err := x.Program(ctx)
			if program {
				all = append(all, document.AgentLink+" is the first system's program")
			}
			return all, err
		},
		Act: func(ctx context.Context) error {
			if err := x.Remove(former.Plist, formerAgentDir, document.AgentLink); err != nil {
				return err
			}
			if err := x.Mac.Files.Link(document.AgentLink, document.CurrentAgent); err != nil {
				return fmt.Errorf("linking %s: %w", document.AgentLink, err)
			}
			return nil
		},
	}
}
