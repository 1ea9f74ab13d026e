// Package image brings images to the host by the pull policies of Kubernetes: one
// pull at a time for a reference, however many Pods ask. Back-off between attempts
// is the caller's, the transfer the driver's.
package image

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// ErrNeverPull says that the policy is Never and the host does not hold the image.
var ErrNeverPull = errors.New("the image is not on this host and imagePullPolicy is Never")

// Source is what of a driver the store needs.
type Source interface {
	Digest(ctx context.Context, ref string) (string, error)
	Pull(ctx context.Context, ref string, o vm.PullOptions) (string, error)
}

// Store of images on one host.
type Store struct {
	source Source

	mu      sync.Mutex
	flights map[string]*flight
}

// flight is one pull and those who wait for it.
type flight struct {
	waiters int
	cancel  context.CancelFunc
	done    chan struct{}
	digest  string
	err     error
}

// New returns a store over a driver.
func New(source Source) *Store {
	return &Store{source: source, flights: map[string]*flight{}}
}

// NeedsPull decides by policy. With Never and no image it fails with ErrNeverPull.
// The digest is that of the image on the host, empty when there is none.
func (s *Store) NeedsPull(ctx context.Context, ref string, policy corev1.PullPolicy) (digest string, needed bool, err error) {
	digest, err = s.source.Digest(ctx, ref)
	switch {
	case err != nil && !errors.Is(err, vm.ErrNotFound):
		return "", false, err
	case policy == corev1.PullAlways:
		return digest, true, nil
	case err == nil:
		return digest, false, nil
	case policy == corev1.PullNever:
		return "", false, fmt.Errorf("image %s: %w", ref, ErrNeverPull)
	}
	return "", true, nil
}

// Pull joins the pull of ref that is under way, or starts one. It ends with its
// last waiter.
func (s *Store) Pull(ctx context.Context, ref string) (string, error) {
	f := s.join(ctx, ref)
	select {
	case <-f.done:
		return f.digest, f.err
	case <-ctx.Done():
		s.leave(ref, f)
		return "", fmt.Errorf("pulling %s: %w", ref, context.Cause(ctx))
	}
}

func (s *Store) join(ctx context.Context, ref string) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flights[ref]; f != nil {
		f.waiters++
		return f
	}
	// Detached: a pull outlives the first who asked, if others wait.
	pulling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{waiters: 1, cancel: cancel, done: make(chan struct{})}
	s.flights[ref] = f
	go func() {
		f.digest, f.err = s.source.Pull(pulling, ref, vm.PullOptions{})
		s.land(ref, f)
	}()
	return f
}

func (s *Store) land(ref string, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.cancel()
	if s.flights[ref] == f {
		delete(s.flights, ref)
	}
	close(f.done)
}

func (s *Store) leave(ref string, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.waiters--
	if f.waiters > 0 {
		return
	}
	f.cancel()
	// The next who asks starts anew rather than join a pull that is being ended.
	if s.flights[ref] == f {
		delete(s.flights, ref)
	}
}
