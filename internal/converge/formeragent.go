package converge

import (
	"context"
	"errors"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// replaceFormer starts our jobs where the first system's agent runs. That one is
// stopped last of all, when everything that ours needs is on the Mac, and never runs
// beside ours: both would start the same Pods. It comes back where ours does not come
// up. Guests are processes of their own, and run on.
func (t *target) replaceFormer(ctx context.Context) error {
	former := formerJob(formerAgentLabel)
	installed, err := t.exists(ctx, former.plist)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", former.plist, err)
	}
	if err := t.bootOut(ctx, former); err != nil {
		return err
	}
	failed := t.restartJobs(ctx)
	if failed == nil || !installed {
		return failed
	}
	return t.giveBack(ctx, former, failed)
}

// giveBack stops our agent and starts the first system's again.
func (t *target) giveBack(ctx context.Context, former job, failed error) error {
	ours := agentJob()
	_, loaded, err := t.printJob(ctx, ours)
	if err == nil && loaded {
		err = t.unload(ctx, ours)
	}
	if err == nil {
		err = t.load(ctx, former)
	}
	if err != nil {
		return errors.Join(failed, fmt.Errorf("starting %s again: %w", former.label, err))
	}
	return &failure{class: classOf(failed), err: fmt.Errorf("%w; the first system's agent runs again", failed)}
}

// formerAgent removes the first system's agent, once ours was proved in its place.
func (t *target) formerAgent() step {
	former := formerJob(formerAgentLabel)
	return step{
		name: "former-agent",
		about: "Only where the Mac is taken over: removes the launchd job " + formerAgentLabel + ", " + formerAgentDir + " with its kubeconfig, and its program " +
			document.AgentLink + ", which becomes a link to ours. The `launchd` step before has stopped it, and only after everything that our agent needs was on the Mac; it starts it again when ours does not come up. Its guests run on.",
		undo: "None: install the first system again.",
		check: func(ctx context.Context) ([]string, error) {
			all, err := t.present(ctx, former.plist, formerAgentDir)
			if err != nil {
				return nil, err
			}
			program, err := t.formerProgram(ctx)
			if program {
				all = append(all, document.AgentLink+" is the first system's program")
			}
			return all, err
		},
		act: func(ctx context.Context) error {
			if err := t.remove(former.plist, formerAgentDir, document.AgentLink); err != nil {
				return err
			}
			if err := t.Mac.Files.Link(document.AgentLink, document.CurrentAgent); err != nil {
				return fmt.Errorf("linking %s: %w", document.AgentLink, err)
			}
			return nil
		},
	}
}
