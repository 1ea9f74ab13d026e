package takeover

import (
	"context"
	"errors"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// Stop stops the first system's agent. That is last of all, when everything that ours
// needs is on the Mac, and it never runs beside ours: both would start the same Pods.
// Guests are processes of their own, and run on.
//
// Its job stays, for it comes back where ours does not come up. As long as a boot would
// start ours, it is switched off: a boot loads every job whose file is there.
func (x Former) Stop(ctx context.Context) error {
	former := formerJob(formerAgentLabel)
	if err := x.bootOut(ctx, former); err != nil {
		return err
	}
	installed, err := x.Exists(ctx, former.Plist)
	if err != nil || !installed {
		return err
	}
	off, err := x.Mac.Launchd.Disabled(ctx, former.Label)
	if err != nil || off {
		return err
	}
	return x.Mac.Launchd.Disable(ctx, former.Label)
}

// allow takes back that its agent is switched off: whoever installs it again could not
// load it.
func (x Former) allow(ctx context.Context) error {
	off, err := x.Mac.Launchd.Disabled(ctx, formerAgentLabel)
	if err != nil || !off {
		return err
	}
	return x.Mac.Launchd.Enable(ctx, formerAgentLabel)
}

// GiveBack lets a boot start its agent again, once none starts ours.
func (x Former) GiveBack(ctx context.Context) error {
	ours, err := x.Exists(ctx, document.AgentPlist)
	if err != nil || ours {
		return err
	}
	return x.allow(ctx)
}

// Left says that its agent is loaded.
func (x Former) Left(ctx context.Context) ([]string, error) {
	_, loaded, err := x.control().Print(ctx, formerAgentLabel)
	if err != nil || !loaded {
		return nil, err
	}
	return []string{formerAgentLabel + " is loaded"}, nil
}

// Restore stops our agent, has no boot start it before the next push, and starts the
// first system's again. Where that one is not installed any more, it does nothing.
func (x Former) Restore(ctx context.Context, failed error) error {
	former := formerJob(formerAgentLabel)
	installed, err := x.Exists(ctx, former.Plist)
	if err == nil && !installed {
		return failed
	}
	if err == nil {
		err = x.handBack(ctx, former)
	}
	if err != nil {
		return errors.Join(failed, fmt.Errorf("starting %s again: %w", former.Label, err))
	}
	return step.Fail(step.ClassOf(failed), "%w; the first system's agent runs again", failed)
}

func (x Former) handBack(ctx context.Context, former launchd.Job) error {
	ours := launchd.AgentJob()
	if err := x.bootOut(ctx, ours); err != nil {
		return err
	}
	// Before the other is switched on, so that no boot finds both.
	if err := x.Remove(ours.Plist); err != nil {
		return err
	}
	_, loaded, err := x.control().Print(ctx, former.Label)
	if err != nil || loaded { // it was never stopped
		return err
	}
	return x.control().Load(ctx, former)
}

// AgentStep removes the first system's agent, once ours is healthy in its place.
func (x Former) AgentStep() step.Step {
	former := formerJob(formerAgentLabel)
	return step.Step{
		Name: "former-agent",
		About: "Only where the Mac is taken over: removes the launchd job " + formerAgentLabel + ", " + formerAgentDir + " with its kubeconfig, and its program " +
			document.AgentLink + ", which becomes a link to ours. The `launchd` step before has stopped it and switched it off (`launchctl disable`), so that a boot starts one of the two, and only after everything that our agent needs was on the Mac; it starts it again, and removes our agent's job, when ours does not come up. Its guests run on.",
		Undo: "None: install the first system again.",
		Check: func(ctx context.Context) ([]string, error) {
			all, err := x.There(ctx, former.Plist, formerAgentDir)
			if err != nil {
				return nil, err
			}
			program, err := x.Program(ctx)
			if err != nil {
				return nil, err
			}
			if program {
				all = append(all, document.AgentLink+" is the first system's program")
			}
			off, err := x.Mac.Launchd.Disabled(ctx, former.Label)
			if off {
				all = append(all, former.Label+" is switched off in launchd's overrides")
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
			return x.allow(ctx)
		},
	}
}
