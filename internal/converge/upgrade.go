package converge

import (
	"context"
	"fmt"
	"path"
)

// upgrade takes a staged build, which the fleet's key has signed, into its slot, and
// points "next" at it. Nothing that runs is touched: making it the current build is
// the work of its own converge.
func (t *target) upgrade(ctx context.Context, build string) {
	t.report.Steps = append(t.report.Steps, t.run(ctx, t.upgradeSteps(build))...)
}

func (t *target) upgradeSteps(build string) []step {
	return []step{
		{
			name: "slot",
			check: func(ctx context.Context) ([]string, error) {
				if sound, err := t.slotSound(ctx, build); err != nil || sound {
					return nil, err
				}
				return []string{"build " + build + " is not in its slot"}, nil
			},
			act: func(ctx context.Context) error {
				if err := t.prune(ctx, build); err != nil {
					return err
				}
				return t.ensureSlot(ctx, build, t.staged(build))
			},
		},
		{
			name: "next",
			check: func(ctx context.Context) ([]string, error) {
				target, err := t.linkTarget(ctx, nextLink)
				if err != nil || path.Base(target) == build {
					return nil, err
				}
				return []string{nextLink + " points elsewhere"}, nil
			},
			act: func(context.Context) error {
				if err := t.Mac.Files.Link(nextLink, build); err != nil {
					return fmt.Errorf("linking %s: %w", nextLink, err)
				}
				return nil
			},
		},
	}
}
