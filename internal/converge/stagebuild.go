package converge

import (
	"context"
	"fmt"
	"path"

	"github.com/macfleet/macfleet/internal/converge/builds"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// upgrade takes a staged build, which the fleet's key has signed, into its install dir, and
// points "next" at it. Nothing that runs is touched: making it the current build is
// the work of its own converge.
func (o Options) upgrade(ctx context.Context, r *document.Report, build string) {
	e := o.env(document.Desired{}, r)
	r.Steps = append(r.Steps, e.Run(ctx, o.upgradeSteps(e, build))...)
}

func (o Options) upgradeSteps(e *step.Env, build string) []step.Step {
	store, staged := builds.Store{Env: e}, path.Join(o.Home, document.StagingDir, build)
	return []step.Step{
		{
			Name: "install-dir",
			Check: func(ctx context.Context) ([]string, error) {
				if sound, err := store.Sound(ctx, build); err != nil || sound {
					return nil, err
				}
				return []string{"build " + build + " is not in its install dir"}, nil
			},
			Act: func(ctx context.Context) error {
				if err := store.Prune(ctx, build); err != nil {
					return err
				}
				return store.Install(ctx, build, staged)
			},
		},
		{
			Name: "next",
			Check: func(ctx context.Context) ([]string, error) {
				target, err := e.LinkTarget(ctx, builds.NextLink)
				if err != nil || path.Base(target) == build {
					return nil, err
				}
				return []string{builds.NextLink + " points elsewhere"}, nil
			},
			Act: func(context.Context) error {
				if err := e.Mac.Files.Link(builds.NextLink, build); err != nil {
					return fmt.Errorf("linking %s: %w", builds.NextLink, err)
				}
				return nil
			},
		},
	}
}
