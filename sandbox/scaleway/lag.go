package scaleway

import (
	"slices"
	"time"
)

// image is a server as it was until a change that lists may not show yet.
type image struct {
	until time.Time
	state server
}

// remember keeps what a server is until a change at the given time, which may have
// been due for a while. Callers hold the lock.
func (v *Vendor) remember(s *server, at time.Time) {
	if v.knobs.ListLag <= 0 {
		return
	}
	horizon := v.now().Add(-time.Duration(v.knobs.ListLag))
	s.past = slices.DeleteFunc(s.past, func(i image) bool { return !i.until.After(horizon) })
	state := *s
	state.past, state.work = nil, nil
	s.past = append(s.past, image{at, state})
}

// listed are the servers as lists show them now: the world of [Knobs.ListLag] ago,
// in the order of creation. Callers hold the lock.
func (v *Vendor) listed() []*server {
	lag := time.Duration(v.knobs.ListLag)
	if lag <= 0 {
		v.departed = nil
		return slices.Clone(v.servers)
	}
	then := v.now().Add(-lag)
	v.departed = slices.DeleteFunc(v.departed, func(s *server) bool { return !s.removed.After(then) })
	all := append(slices.Clone(v.servers), v.departed...)
	shown := make([]*server, 0, len(all))
	for _, s := range all {
		if !s.ordered.After(then) {
			shown = append(shown, s.asOf(then))
		}
	}
	slices.SortStableFunc(shown, olderFirst)
	return shown
}

// asOf is the server as it was at a time: before the first change after it.
func (s *server) asOf(then time.Time) *server {
	for i := range s.past {
		if s.past[i].until.After(then) {
			return &s.past[i].state
		}
	}
	return s
}
