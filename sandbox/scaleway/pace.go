package scaleway

import "time"

// pace applies what the clock makes due even when nobody asks: hardware has to
// boot whether or not a client polls.
func (v *Vendor) pace() {
	for v.ctx.Err() == nil {
		v.paceOnce()
	}
}

// paceOnce advances, then waits for the next due time, a change, or the end.
func (v *Vendor) paceOnce() {
	v.mu.Lock()
	next, found := v.nextDue(v.advance())
	v.mu.Unlock()
	if !found {
		select {
		case <-v.wake:
		case <-v.ctx.Done():
		}
		return
	}
	before := v.opts.Clock.Now()
	wait := next.Sub(before)
	if wait <= 0 {
		return
	}
	timer := v.opts.Clock.NewTimer(wait)
	defer timer.Stop()
	// A stepped clock that moved before the timer existed would make it late.
	if v.opts.Clock.Since(before) > 10*time.Millisecond {
		return
	}
	select {
	case <-timer.C():
	case <-v.wake:
	case <-v.ctx.Done():
	}
}

// poke has pace look for a due time again.
func (v *Vendor) poke() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// nextDue is the earliest time after now at which something changes by itself and
// that hardware or a log should see. Callers hold the lock.
func (v *Vendor) nextDue(now time.Time) (time.Time, bool) {
	var next time.Time
	consider := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, s := range v.servers {
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
