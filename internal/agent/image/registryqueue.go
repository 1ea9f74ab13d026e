package image

import (
	"context"
	"fmt"
)

// registryQueue lets one pull of a registry run at a time, as the tool does anyway: so a
// pull that waits for another is not taken for one that stalls.
type registryQueue struct {
	token chan struct{}
	users int
	// pulls is the image that is pulled, or was last.
	pulls string
}

// awaitQueue waits until the pulls before it from its registry have ended, and returns what ends it.
func (s *Store) awaitQueue(ctx context.Context, f *sharedPull) (leave func(), err error) {
	l, first := s.joinQueue(f)
	if first {
		return func() { <-l.token; s.leaveQueue(f) }, nil
	}
	select {
	case l.token <- struct{}{}:
		s.mu.Lock()
		l.starts(f)
		s.mu.Unlock()
		return func() { <-l.token; s.leaveQueue(f) }, nil
	case <-ctx.Done():
		s.leaveQueue(f)
		return nil, fmt.Errorf("waiting for another pull from %s: %w", f.ref.host(), context.Cause(ctx))
	}
}

// joinQueue puts a pull into the queue of its registry. The first begins at once, any
// other is told what it waits for.
func (s *Store) joinQueue(f *sharedPull) (l *registryQueue, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.queues[f.ref.host()]
	if l == nil {
		l = &registryQueue{token: make(chan struct{}, 1)}
		s.queues[f.ref.host()] = l
	}
	l.users++
	select {
	case l.token <- struct{}{}:
		l.starts(f)
		return l, true
	default:
		f.behind = l.pulls
		close(f.queued)
		return l, false
	}
}

func (l *registryQueue) starts(f *sharedPull) {
	l.pulls = f.ref.String()
	close(f.begun)
}

func (s *Store) leaveQueue(f *sharedPull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.queues[f.ref.host()]
	if l.users--; l.users == 0 {
		delete(s.queues, f.ref.host())
	}
}

// reportQueue says that the pull waits for another, and when it begins. Of a pull
// that goes on already it says nothing.
func (f *sharedPull) reportQueue(ctx context.Context, waits func(string)) {
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
