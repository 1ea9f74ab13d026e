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
func (f *fleet) remember(s *server, at time.Time) {
	if f.knobs.ListLag <= 0 {
		return
	}
	horizon := f.now().Add(-time.Duration(f.knobs.ListLag))
	s.past = slices.DeleteFunc(s.past, func(i image) bool { return !i.until.After(horizon) })
	state := *s
	state.past, state.work = nil, nil
	s.past = append(s.past, image{at, state})
}

// listed are the servers as lists show them now: the world of [Knobs.ListLag] ago,
// in the order of creation. Callers hold the lock.
func (f *fleet) listed() []*server {
	lag := time.Duration(f.knobs.ListLag)
	if lag <= 0 {
		f.departed = nil
		return slices.Clone(f.servers)
	}
	then := f.now().Add(-lag)
	f.departed = slices.DeleteFunc(f.departed, func(s *server) bool { return !s.removed.After(then) })
	all := append(slices.Clone(f.servers), f.departed...)
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
