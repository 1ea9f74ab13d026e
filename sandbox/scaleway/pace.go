package scaleway

import "time"

// pace applies what the clock makes due even when nobody asks: hardware has to
// boot whether or not a client polls.
func (f *fleet) pace() {
	for f.ctx.Err() == nil {
		f.paceOnce()
	}
}

// paceOnce advances, then waits for the next due time, a change, or the end.
func (f *fleet) paceOnce() {
	f.mu.Lock()
	next, found := f.nextDue(f.advance())
	f.mu.Unlock()
	if !found {
		select {
		case <-f.wake:
		case <-f.ctx.Done():
		}
		return
	}
	before := f.opts.Clock.Now()
	wait := next.Sub(before)
	if wait <= 0 {
		return
	}
	timer := f.opts.Clock.NewTimer(wait)
	defer timer.Stop()
	// A stepped clock that moved before the timer existed would make it late.
	if f.opts.Clock.Since(before) > 10*time.Millisecond {
		return
	}
	select {
	case <-timer.C():
	case <-f.wake:
	case <-f.ctx.Done():
	}
}

// poke has pace look for a due time again.
func (f *fleet) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// nextDue is the earliest time after now at which something changes by itself and
// that hardware or a log should see. Callers hold the lock.
func (f *fleet) nextDue(now time.Time) (time.Time, bool) {
	var next time.Time
	consider := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, s := range f.servers {
		// One that is due and not over waits for its hardware, which ends it itself.
		if s.pending != nil && s.pending.due.After(now) {
			consider(s.pending.due)
		}
		if s.deletionScheduled {
			consider(s.deletable)
		}
	}
	return next, !next.IsZero()
}
