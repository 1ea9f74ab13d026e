package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// tidyInterval is how often the volume is looked at.
	tidyInterval = time.Minute
	// listInterval is how often the tool is asked for its images, beside what we
	// change ourselves.
	listInterval = 5 * time.Minute
	// complainInterval is how often it is told that room cannot be made.
	complainInterval = 5 * time.Minute
	// nodeImageLimit and nodeNameLimit are a kubelet's: the list is for the scheduler.
	nodeImageLimit = 50
	nodeNameLimit  = 5
)

// Run pulls what is wanted beforehand and removes what is not needed, until ctx
// ends.
func (s *Store) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer s.ledger.flush()
	s.refresh(ctx)
	running.Go(func() { s.prePull(ctx) })
	ticker := s.o.Clock.NewTicker(tidyInterval)
	defer ticker.Stop()
	listed := s.o.Clock.Now()
	for {
		stirred := false
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
			stirred = true
		case <-ticker.C():
		}
		if now := s.o.Clock.Now(); stirred || now.Sub(listed) >= listInterval {
			listed = now
			s.refresh(ctx)
		}
		s.tidy(ctx)
		s.ledger.flush()
	}
}

// tidy removes images when the volume is fuller than it should be. Where that is not enough,
// pulls that nobody waits for end.
func (s *Store) tidy(ctx context.Context) {
	if s.o.Disk == nil {
		return
	}
	_, err := s.collect(ctx, toLow)
	if s.space(ctx).usedPercent() > s.o.HighPercent && s.endBackgroundPulls(ctx) {
		return // their end has Run look again
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	now := s.o.Clock.Now()
	if !s.complained.IsZero() && now.Sub(s.complained) < complainInterval {
		return
	}
	s.complained = now
	s.o.Log.Warn("removing images", "err", err)
	if s.o.GarbageFailed != nil {
		s.o.GarbageFailed(err.Error())
	}
}

// refresh reads the list that Images tells.
func (s *Store) refresh(ctx context.Context) {
	list, err := s.list(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.o.Log.Warn("the images on this host are not known", "err", err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = list
}

// Images for the status of the Node, the biggest first, as they were last listed.
func (s *Store) Images() []corev1.ContainerImage {
	s.mu.Lock()
	listed := slices.Clone(s.listed)
	s.mu.Unlock()
	slices.SortFunc(listed, func(a, b localImage) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.digest, b.digest))
	})
	images := []corev1.ContainerImage{}
	for _, h := range listed[:min(len(listed), nodeImageLimit)] {
		images = append(images, corev1.ContainerImage{Names: nodeNames(h), SizeBytes: h.size})
	}
	return images
}

// nodeNames puts digests first, then tags, as kubelets do.
func nodeNames(h localImage) []string {
	var names []string
	for _, name := range h.names {
		ref, err := parseReference(name)
		if err != nil {
			continue
		}
		names = append(names, ref.String(), ref.at(h.digest))
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(strings.Count(b, "@")-strings.Count(a, "@"), cmp.Compare(a, b))
	})
	names = slices.Compact(names)
	return names[:min(len(names), nodeNameLimit)]
}

const (
	// prePullAgain is how often a tag is resolved anew.
	prePullAgain = time.Hour
	// prePullYielded is the wait after a Pod took the place, prePullFirst and
	// prePullMost the first and the longest after a failure.
	prePullYielded = 30 * time.Second
	prePullFirst   = time.Minute
	prePullMost    = time.Hour
	// prePullTold is how often it is told at most that an image is not pulled.
	prePullTold = 30 * time.Minute
)

// wanted is an image to have beforehand.
type wanted struct {
	ref      reference
	due      time.Time
	failures int
	// told is when its failure was told last.
	told time.Time
}

// prePull brings the images wanted beforehand one after the other, and gives way to
// Pods.
func (s *Store) prePull(ctx context.Context) {
	list := s.wantedImages()
	for len(list) > 0 {
		next := slices.MinFunc(list, func(a, b *wanted) int { return a.due.Compare(b.due) })
		if !s.waitUntil(ctx, next.due) {
			return
		}
		err := s.prePullOne(ctx, next.ref)
		if ctx.Err() == nil {
			s.tellPrePull(next, err)
		}
		next.due = s.o.Clock.Now().Add(next.after(err))
	}
}

// tellPrePull tells of a failure that waiting for a Pod does not explain.
func (s *Store) tellPrePull(w *wanted, err error) {
	now := s.o.Clock.Now()
	if err == nil || errors.Is(err, errPreempted) || s.o.PrePullFailed == nil || !w.told.IsZero() && now.Sub(w.told) < prePullTold {
		return
	}
	w.told = now
	s.o.PrePullFailed(fmt.Sprintf("image %s is not pulled beforehand: %v", w.ref, err))
}

// waitUntil reports whether ctx lasted so long.
func (s *Store) waitUntil(ctx context.Context, due time.Time) bool {
	left := due.Sub(s.o.Clock.Now())
	if left <= 0 || ctx.Err() != nil {
		return ctx.Err() == nil
	}
	timer := s.o.Clock.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

func (s *Store) wantedImages() []*wanted {
	var list []*wanted
	for _, text := range s.o.PrePull {
		ref, err := parseReference(text)
		if err != nil {
			s.o.Log.Error("an image cannot be pulled beforehand", "err", err)
			continue
		}
		list = append(list, &wanted{ref: ref, due: s.o.Clock.Now()})
	}
	return list
}

// after is the delay to the next try.
func (w *wanted) after(err error) time.Duration {
	switch {
	case err == nil:
		w.failures = 0
		return prePullAgain
	case errors.Is(err, errPreempted):
		return prePullYielded
	}
	delay := prePullFirst << min(w.failures, 10)
	w.failures++
	return min(delay, prePullMost)
}

func (s *Store) prePullOne(ctx context.Context, ref reference) error {
	before, err := s.digestNow(ctx, ref.String())
	if before != "" && ref.pinned() {
		return nil
	}
	var digest string
	if err == nil {
		digest, err = s.pullBeforehand(ctx, ref)
	}
	switch {
	case err == nil && digest != before:
		s.o.Log.Info("image pulled beforehand", "image", ref.String(), "digest", digest)
	case errors.Is(err, errPreempted):
		s.o.Log.Info("pulling beforehand gives way to a Pod", "image", ref.String())
	case err != nil && ctx.Err() == nil:
		s.o.Log.Warn("image not pulled beforehand, trying again later", "image", ref.String(), "err", err)
	}
	return err
}

// pullBeforehand does not fill a volume that is to be emptied: to look a tag up that has moved
// is to pull a whole image.
func (s *Store) pullBeforehand(ctx context.Context, ref reference) (string, error) {
	if used := s.space(ctx).usedPercent(); used > s.o.HighPercent {
		return "", fmt.Errorf("the volume of images is %d %% full, above %d %%", used, s.o.HighPercent)
	}
	return s.pull(ctx, ref, credential{}, background, Request{})
}
