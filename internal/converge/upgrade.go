package converge

import (
	"context"
	"fmt"
	"path"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// Upgrade takes a staged build into its slot when the fleet's key has signed it,
// and points "next" at it. Nothing that runs is touched: making it the current
// build is the work of its own converge.
func Upgrade(ctx context.Context, o Options, u document.Upgrade) document.Report {
	r := o.newReport(ctx, document.VerbUpgrade)
	unlock, err := o.lock(ctx)
	if err != nil {
		r.Steps = []document.StepReport{failedStep("lock", err)}
		return o.seal(r)
	}
	defer func() { _ = unlock.Close() }()
	t := &target{Options: o, report: &r}
	r.Steps = t.run(ctx, t.upgradeSteps(u))
	return o.keep(ctx, o.seal(r))
}

func (t *target) upgradeSteps(u document.Upgrade) []step {
	return []step{
		{
			name:  "signature",
			check: func(context.Context) ([]string, error) { return nil, t.signedByFleet(u) },
		},
		{
			name: "slot",
			check: func(ctx context.Context) ([]string, error) {
				if sound, err := t.slotSound(ctx, u.SHA256); err != nil || sound {
					return nil, err
				}
				return []string{"build " + u.SHA256 + " is not in its slot"}, nil
			},
			act: func(ctx context.Context) error {
				if err := t.prune(ctx, u.SHA256); err != nil {
					return err
				}
				return t.ensureSlot(ctx, u.SHA256, t.staged(u.SHA256))
			},
		},
		{
			name: "next",
			check: func(ctx context.Context) ([]string, error) {
				target, err := t.linkTarget(ctx, nextLink)
				if err != nil || path.Base(target) == u.SHA256 {
					return nil, err
				}
				return []string{nextLink + " points elsewhere"}, nil
			},
			act: func(context.Context) error {
				if err := t.Mac.Files.Link(nextLink, u.SHA256); err != nil {
					return fmt.Errorf("linking %s: %w", nextLink, err)
				}
				return nil
			},
		},
	}
}

func (t *target) signedByFleet(u document.Upgrade) error {
	key, err := t.upgradeKey()
	if err != nil {
		return err
	}
	if !document.BuildSigned(key, u.SHA256, u.Signature) {
		return fail(document.Human, "build %s is not signed by this fleet's key: only the fleet's manager can upgrade this Mac", u.SHA256)
	}
	return nil
}
