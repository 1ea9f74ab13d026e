package launchd

import (
	"context"
	"errors"
	"fmt"

	"github.com/macfleet/macfleet/internal/converge/builds"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// rollBack puts the last good build and its configuration back, if there is an older
// one and the new one has failed. The step has failed in any case: the Mac is
// not what was wanted of it.
func (x *Jobs) rollBack(ctx context.Context, unhealthy *unhealthyError) error {
	old, config, err := x.builds.RollbackTarget()
	if err != nil || old.Build == "" || !unhealthy.sawProcess {
		return errors.Join(unhealthy, err)
	}
	build := x.Desired.Agent.SHA256
	times, err := x.builds.RecordFailure(ctx)
	if err != nil {
		return errors.Join(unhealthy, err)
	}
	if err := x.restore(ctx, old, config); err != nil {
		return fmt.Errorf("build %s did not prove itself: %w; going back to build %s failed too: %w",
			build, unhealthy, old.Build, err)
	}
	x.Report.RolledBack = build
	class := document.Retry
	if times >= builds.MaxFailures {
		class = document.Human
	}
	return step.Fail(class, "build %s did not prove itself (failure %d on this Mac), build %s runs again: %w",
		build, times, old.Build, unhealthy)
}

func (x *Jobs) restore(ctx context.Context, old builds.Identity, config []byte) error {
	if sound, err := x.builds.Sound(ctx, old.Build); err != nil || !sound {
		return errors.Join(err, fmt.Errorf("build %s is not whole", old.Build))
	}
	if err := RequireRestarts(ctx, x.Mac.Files); err != nil {
		return err
	}
	if err := x.Mac.Files.Link(builds.CurrentLink, old.Build); err != nil {
		return fmt.Errorf("linking %s: %w", builds.CurrentLink, err)
	}
	attr := step.StaffAttr(step.Root, 0o640)
	if err := step.Write(ctx, x.Mac.Files, step.File{Path: document.ConfigFile, Data: config, Attr: attr}); err != nil {
		return err
	}
	if err := x.startAndWatch(ctx, old); err != nil {
		return err
	}
	return clearPending(x.Mac.Files)
}
