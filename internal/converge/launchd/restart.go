package launchd

import (
	"context"
	"errors"

	"github.com/macfleet/macfleet/internal/converge/proofreboot"
)

// restartJobs brings the jobs up with what is wanted. A build that does not become
// healthy makes room for the one before it.
func (x *Jobs) restartJobs(ctx context.Context) error {
	want, err := x.builds.Wanted()
	if err != nil {
		return err
	}
	if pending, err := proofreboot.Pending(ctx, x.Env); err != nil {
		return err
	} else if pending {
		// They stop again with this boot. What stays is watched in the run after the
		// reboot, which finds them not healthy yet and their restart pending.
		_, err := x.startJobs(ctx, want)
		return err
	}
	err = x.startAndWatch(ctx, want)
	if unhealthy, ok := errors.AsType[*unhealthyError](err); ok {
		return x.rollBack(ctx, unhealthy)
	}
	if err != nil {
		return err
	}
	if err := x.builds.RecordLastGood(ctx); err != nil {
		return err
	}
	if err := x.recordRestart(ctx); err != nil {
		return err
	}
	return clearPending(x.Mac.Files)
}
