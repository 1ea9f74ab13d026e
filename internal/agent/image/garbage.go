package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// extent says how much a collection removes.
type extent string

const (
	// toLow: until no more than LowPercent is in use, when more than HighPercent is.
	toLow extent = "the volume is fuller than it should be"
	// relief: until the host should be short no more, and everything when it is still.
	relief extent = "the host is short of disk"
	// everything that nobody needs.
	everything extent = "an image needs the room"
)

// localImage is one image of the host with all its names.
type localImage struct {
	digest string
	names  []string
	size   int64
	used   time.Time
}

// space of the volume; total 0 when it is not known.
type space struct{ free, total int64 }

// usedPercent is rounded up.
func (s space) usedPercent() int {
	if s.total <= 0 {
		return 0
	}
	return 100 - int(float64(s.free)*100/float64(s.total))
}

// garbageError says that the volume stays fuller than it should.
type garbageError struct {
	UsedPercent, HighPercent int
	// Kept is how many images are left, all of them needed.
	Kept int
	// Err is why one could not be removed, nil when all that may go went.
	Err error
}

func (e *garbageError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the volume of images is %d %% full, above %d %%, and an image cannot be removed: %v", e.UsedPercent, e.HighPercent, e.Err)
	}
	return fmt.Sprintf("the volume of images is %d %% full, above %d %%, and nothing can be removed: %d images are in use by Pods, pulled, or wanted beforehand; give the Mac a larger volume, or fewer images to pull beforehand",
		e.UsedPercent, e.HighPercent, e.Kept)
}

// Unwrap returns Err.
func (e *garbageError) Unwrap() error { return e.Err }

// FreeNow makes room on a host that is short of disk: it removes images that nobody
// needs until LowPercent and ReliefPercent are reached, and all of them where they have
// been and the host is short still: another volume may be what it is short of. Where that
// was not enough either, pulls that nobody waits for end, and nothing is kept of pulls that
// have: the host ends Pods next.
func (s *Store) FreeNow(ctx context.Context) error {
	target := s.o.reliefTarget()
	enough := func() bool { return s.space(ctx).usedPercent() <= target }
	elsewhere := enough()
	_, err := s.collect(ctx, relief)
	if elsewhere || !enough() {
		s.endBackgroundPulls(ctx)
		s.o.Source.RemoveLeftovers()
	}
	return err
}

func (s *Store) space(ctx context.Context) space {
	if s.o.Disk == nil {
		return space{}
	}
	free, total, err := s.o.Disk(ctx)
	if err != nil {
		s.o.Log.Warn("the volume of images does not tell its space", "err", err)
		return space{}
	}
	return space{free: free, total: total}
}

// collect removes images, those least recently used first, and returns how many. It
// leaves the images that Pods name, that are being pulled, or wanted beforehand.
func (s *Store) collect(ctx context.Context, x extent) (removed int, err error) {
	s.collecting.Lock()
	defer s.collecting.Unlock()
	if !s.o.Known() {
		return 0, nil
	}
	began := s.o.Clock.Now()
	before := s.space(ctx)
	if x == toLow && before.usedPercent() <= s.o.HighPercent {
		return 0, nil
	}
	target := s.o.LowPercent
	if x == relief {
		target = s.o.reliefTarget()
	}
	all := x == everything || before.usedPercent() <= target
	images, err := s.list(ctx)
	if err != nil {
		return 0, err
	}
	var failed error
	var sizes int64
	for _, h := range s.idle(images) {
		if !all && s.enough(ctx, before, sizes, target) {
			break
		}
		gone, err := s.remove(ctx, h, began)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if gone {
			removed++
			sizes += h.size
			s.o.Log.Info("image removed", "names", h.names, "bytes", h.size, "used", h.used, "why", x)
		}
	}
	if removed > 0 {
		s.refresh(ctx)
	}
	if after := s.space(ctx); after.usedPercent() > s.o.HighPercent && (removed == 0 || failed != nil) {
		return removed, &garbageError{UsedPercent: after.usedPercent(), HighPercent: s.o.HighPercent, Kept: len(images) - removed, Err: failed}
	}
	return removed, failed
}

// enough counts what was removed at its size even where the volume does not show it
// yet: better another look in a minute than an image too many.
func (s *Store) enough(ctx context.Context, before space, sizes int64, target int) bool {
	now := s.space(ctx)
	now.free = max(now.free, before.free+sizes)
	return now.usedPercent() <= target
}

// list asks the driver, and joins the names of each image.
func (s *Store) list(ctx context.Context) ([]localImage, error) {
	images, err := s.o.Source.Images(ctx)
	if err != nil {
		return nil, err
	}
	byDigest := map[string]*localImage{}
	var digests []string
	for _, i := range images {
		digest, err := s.digestOf(ctx, i)
		if err != nil {
			return nil, err
		}
		if digest == "" {
			continue // gone meanwhile
		}
		h := byDigest[digest]
		if h == nil {
			h = &localImage{digest: digest}
			byDigest[digest] = h
			digests = append(digests, digest)
		}
		h.names = append(h.names, i.Name)
		h.size = max(h.size, i.SizeBytes)
		if i.Accessed.After(h.used) {
			h.used = i.Accessed
		}
	}
	s.ledger.observe(digests, s.o.Clock.Now())
	list := make([]localImage, 0, len(digests))
	for _, d := range digests {
		h := byDigest[d]
		if own := s.ledger.used(d); own.After(h.used) {
			h.used = own
		}
		list = append(list, *h)
	}
	return list, nil
}

func (s *Store) digestOf(ctx context.Context, i vm.Image) (string, error) {
	if i.Digest != "" {
		return i.Digest, nil
	}
	if _, digest, found := strings.Cut(i.Name, "@"); found {
		return digest, nil
	}
	return s.digestNow(ctx, i.Name)
}

// idle are the images that nobody needs, those least recently used first.
func (s *Store) idle(images []localImage) []localImage {
	needed := s.needed()
	idle := slices.DeleteFunc(slices.Clone(images), func(h localImage) bool {
		return slices.ContainsFunc(h.names, func(name string) bool { return needed[fullName(name)] })
	})
	slices.SortStableFunc(idle, func(a, b localImage) int { return a.used.Compare(b.used) })
	return idle
}

// needed are the references that Pods name, that are being pulled, or wanted
// beforehand.
func (s *Store) needed() map[string]bool {
	needed := map[string]bool{}
	for _, ref := range append(s.o.InUse(), s.o.PrePull...) {
		needed[fullName(ref)] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.pulls {
		needed[key.ref] = true
	}
	return needed
}

// fullName is the name with its tag.
func fullName(name string) string {
	ref, err := parseReference(name)
	if err != nil {
		return name
	}
	return ref.String()
}

// remove gives up all names of an image, unless a Pod got it since.
func (s *Store) remove(ctx context.Context, h localImage, since time.Time) (bool, error) {
	done := make(chan struct{})
	s.mu.Lock()
	if s.ledger.used(h.digest).After(since) {
		s.mu.Unlock()
		return false, nil
	}
	s.removing[h.digest] = done
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.removing, h.digest)
		close(done)
	}()
	// Tags first: a digest that still has one would stay.
	names := slices.Clone(h.names)
	slices.SortStableFunc(names, func(a, b string) int { return strings.Count(a, "@") - strings.Count(b, "@") })
	for _, name := range names {
		if err := s.o.Source.RemoveImage(ctx, name); err != nil && !errors.Is(err, vm.ErrNotFound) {
			return false, fmt.Errorf("removing image %s: %w", name, err)
		}
	}
	s.ledger.forget(h.digest)
	return true, nil
}
