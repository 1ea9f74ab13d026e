package image

import (
	"context"
	"fmt"
)

// lane lets one pull of a registry run at a time, as the tool does anyway: so a
// pull that waits for another is not taken for one that stalls.
type lane struct {
	turn  chan struct{}
	users int
	// pulls is the image whose turn it is, or was last.
	pulls string
}

// enter waits for the turn of a pull from its registry, and returns what ends it.
func (s *Store) enter(ctx context.Context, f *flight) (leave func(), err error) {
	l, first := s.line(f)
	if first {
		return func() { <-l.turn; s.unline(f) }, nil
	}
	select {
	case l.turn <- struct{}{}:
		s.mu.Lock()
		l.begins(f)
		s.mu.Unlock()
		return func() { <-l.turn; s.unline(f) }, nil
	case <-ctx.Done():
		s.unline(f)
		return nil, fmt.Errorf("waiting for another pull from %s: %w", f.ref.host(), context.Cause(ctx))
	}
}

// line puts a pull into the lane of its registry. The first has its turn at once, any
// other is told what it waits for.
func (s *Store) line(f *flight) (l *lane, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.lanes[f.ref.host()]
	if l == nil {
		l = &lane{turn: make(chan struct{}, 1)}
		s.lanes[f.ref.host()] = l
	}
	l.users++
	select {
	case l.turn <- struct{}{}:
		l.begins(f)
		return l, true
	default:
		f.behind = l.pulls
		close(f.queued)
		return l, false
	}
}

func (l *lane) begins(f *flight) {
	l.pulls = f.ref.String()
	close(f.begun)
}

func (s *Store) unline(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[f.ref.host()]
	if l.users--; l.users == 0 {
		delete(s.lanes, f.ref.host())
	}
}

// tell says that the pull waits for another, and when its turn has come. Of a pull
// that goes on already it says nothing.
func (f *flight) tell(ctx context.Context, waits func(string)) {
	select {
	case <-f.begun:
		return
	default:
	}
	select {
	case <-f.queued:
		waits(f.behind)
	case <-f.begun:
		return
	case <-f.done:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-f.begun:
	case <-f.done:
	case <-ctx.Done():
		return
	}
	waits("")
}
