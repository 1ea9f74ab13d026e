package pod

import (
	"context"
	"errors"
	"time"
)

const (
	// guardTries and guardPause are the patience with a guard that says no.
	guardTries = 5
	guardPause = 2 * time.Second
	// awayPatience is the one with a guard that does not answer: it is restarted when a
	// new build comes, which must not cost a guest. launchd starts a job ten seconds
	// after it ended at the earliest, and a build on trial may have 45.
	awayPatience = time.Minute
)

// patience is the one with the guard about a machine that runs.
type patience struct {
	since time.Time
	noes  int
}

// ends takes one failed proof into account.
func (p *patience) ends(err error, now time.Time) bool {
	var silent interface{ Away() bool }
	if errors.As(err, &silent) && silent.Away() {
		return now.Sub(p.since) >= awayPatience
	}
	p.noes++
	return p.noes >= guardTries
}

// holds reports an error of a guard that the firewall is not the reason of.
func holds(err error) bool {
	var fenced interface{ Proved() bool }
	return errors.As(err, &fenced) && fenced.Proved()
}

// armAgain asks the guard about a machine that runs, with some patience. A machine
// that ends meanwhile needs no proof.
func (w *worker) armAgain(ctx context.Context, gone <-chan struct{}) error {
	p := patience{since: w.clock.Now()}
	for asked := false; ; asked = true {
		err := w.arm(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil, holds(err):
			return nil
		case p.ends(err, w.clock.Now()):
			return err
		case !asked:
			w.log.Warn("the firewall around a VM that runs is not proved, asking again", "err", err)
		}
		if over, err := w.pause(ctx, gone, guardPause); over || err != nil {
			return err
		}
	}
}
