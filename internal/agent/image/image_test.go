package image

import (
	"context"
	"errors"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

type source struct {
	mu      sync.Mutex
	digest  string
	pulls   int
	started chan struct{}
	release chan struct{}
	ended   chan error
}

func (s *source) Digest(context.Context, string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.digest == "" {
		return "", vm.ErrNotFound
	}
	return s.digest, nil
}

func (s *source) Pull(ctx context.Context, _ string, _ vm.PullOptions) (string, error) {
	s.mu.Lock()
	s.pulls++
	s.mu.Unlock()
	s.started <- struct{}{}
	select {
	case <-s.release:
		s.ended <- nil
		return "sha256:new", nil
	case <-ctx.Done():
		s.ended <- ctx.Err()
		return "", ctx.Err()
	}
}

func newSource() *source {
	return &source{started: make(chan struct{}, 10), release: make(chan struct{}), ended: make(chan error, 10)}
}

func TestNeedsPull(t *testing.T) {
	for _, c := range []struct {
		held   string
		policy corev1.PullPolicy
		needed bool
		never  bool
	}{
		{"", corev1.PullIfNotPresent, true, false},
		{"d", corev1.PullIfNotPresent, false, false},
		{"", corev1.PullAlways, true, false},
		{"d", corev1.PullAlways, true, false},
		{"", corev1.PullNever, false, true},
		{"d", corev1.PullNever, false, false},
	} {
		src := newSource()
		src.digest = c.held
		digest, needed, err := New(src).NeedsPull(context.Background(), "r/i:t", c.policy)
		if needed != c.needed || errors.Is(err, ErrNeverPull) != c.never || digest != c.held {
			t.Errorf("held %q, %s: digest %q, needed %v, err %v", c.held, c.policy, digest, needed, err)
		}
	}
}

func TestPullOutlivesTheFirstWhoAsked(t *testing.T) {
	src := newSource()
	s := New(src)
	first, leave := context.WithCancel(context.Background())
	firstDone := make(chan error, 1)
	go func() {
		_, err := s.Pull(first, "r/i:t")
		firstDone <- err
	}()
	<-src.started
	joined := s.join(context.Background(), "r/i:t")
	leave()
	if err := <-firstDone; err == nil {
		t.Error("the first was not let go")
	}
	close(src.release)
	<-joined.done
	if joined.err != nil || joined.digest != "sha256:new" || src.pulls != 1 {
		t.Errorf("digest %q, err %v, %d pulls", joined.digest, joined.err, src.pulls)
	}
}

func TestPullEndsWithItsLastWaiter(t *testing.T) {
	src := newSource()
	s := New(src)
	ctx, leave := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := s.Pull(ctx, "r/i:t")
		done <- err
	}()
	<-src.started
	leave()
	if err := <-done; err == nil {
		t.Error("who left was told that the pull worked")
	}
	if err := <-src.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the pull ended with %v", err)
	}
	close(src.release)
	if digest, err := s.Pull(context.Background(), "r/i:t"); err != nil || digest != "sha256:new" {
		t.Errorf("the next pull: %q, %v", digest, err)
	}
}
