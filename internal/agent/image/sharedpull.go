package image

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// urgency says who waits for a pull.
type urgency bool

const (
	// foreground: a Pod does.
	foreground urgency = false
	// background: nobody yet.
	background urgency = true
)

// pullKey: pulls of one reference with different credentials are not one pull, as
// each proves something else.
type pullKey struct{ ref, credential string }

// endsWithin is how long is waited for the end of a pull that was cancelled: who needs the
// room does not wait for a tool that hangs.
const endsWithin = 10 * time.Second

// sharedPull is one pull and those who wait for it.
type sharedPull struct {
	key pullKey
	ref reference
	// waiters are all who wait, pods those in the foreground among them.
	waiters, pods int
	cancel        context.CancelCauseFunc
	// percent it has come to, and began with; -1: it has told nothing yet.
	percent, first atomic.Int32
	// heard is when it told so last, or began, in Unix nanoseconds.
	heard atomic.Int64
	// queued is closed when it must wait for the pull of the image behind, begun when
	// its turn has come.
	queued, begun chan struct{}
	behind        string
	done          chan struct{}
	digest        string
	err           error
}

// pull joins the pull that is under way, or starts one. It ends with its last
// waiter. A pull in the background ends with errPreempted when a Pod needs its place.
// It is told of as the Request asks.
func (s *Store) pull(ctx context.Context, ref reference, c credential, u urgency, r Request) (string, error) {
	f := s.join(ctx, ref, c, u)
	if r.Waits != nil {
		f.reportQueue(ctx, r.Waits)
	}
	var minute <-chan time.Time
	if r.Progress != nil {
		t := s.o.Clock.NewTicker(time.Minute)
		defer t.Stop()
		minute = t.C()
	}
	for {
		select {
		case <-minute:
			r.Progress(int(f.percent.Load()), s.quiet(f))
		case <-f.done:
			return f.digest, f.err
		case <-ctx.Done():
			s.leavePull(f, u)
			return "", fmt.Errorf("pulling %s: %w", ref, context.Cause(ctx))
		}
	}
}

// quiet is how long ago a pull told that something came.
func (s *Store) quiet(f *sharedPull) time.Duration {
	return s.o.Clock.Since(time.Unix(0, f.heard.Load()))
}

func (s *Store) join(ctx context.Context, ref reference, c credential, u urgency) *sharedPull {
	key := pullKey{ref: ref.String(), credential: s.ledger.hash(c)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u == foreground {
		s.pulls.cancelBackground(errPreempted, func(f *sharedPull) bool { return f.ref != ref && f.ref.host() == ref.host() })
	}
	if f := s.pulls[key]; f != nil {
		f.enter(u)
		return f
	}
	// Detached: a pull outlives the first who asked, if others wait.
	pulling, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f := &sharedPull{key: key, ref: ref, cancel: cancel}
	f.enter(u)
	f.queued, f.begun, f.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
	f.first.Store(-1)
	f.heard.Store(s.o.Clock.Now().UnixNano())
	s.pulls[key] = f
	go func() {
		f.digest, f.err = s.pullQueued(pulling, f, c)
		s.finishPull(f)
	}()
	return f
}

func (f *sharedPull) enter(u urgency) {
	f.waiters++
	if u == foreground {
		f.pods++
	}
}

// sharedPulls are those under way.
type sharedPulls map[pullKey]*sharedPull

// cancelBackground ends those pulls that chosen names and no Pod waits for, and
// returns them.
func (all sharedPulls) cancelBackground(why error, chosen func(*sharedPull) bool) []*sharedPull {
	var cancelled []*sharedPull
	for k, f := range all {
		if !all.await(f) && chosen(f) {
			f.cancel(why)
			delete(all, k)
			cancelled = append(cancelled, f)
		}
	}
	return cancelled
}

// await reports whether a Pod waits for the image of a pull, be it with credentials of its own:
// its own pull comes after this one in the queue, and finds the image here.
func (all sharedPulls) await(f *sharedPull) bool {
	for k, other := range all {
		if k.ref == f.key.ref && other.pods > 0 {
			return true
		}
	}
	return false
}

// endBackgroundPulls gives the room of all pulls that no Pod waits for back to the volume, and
// reports whether there were any.
func (s *Store) endBackgroundPulls(ctx context.Context) bool {
	s.mu.Lock()
	cancelled := s.pulls.cancelBackground(errNoRoom, func(*sharedPull) bool { return true })
	s.mu.Unlock()
	if len(cancelled) == 0 {
		return false
	}
	late := s.o.Clock.NewTimer(endsWithin)
	defer late.Stop()
	for _, f := range cancelled {
		select {
		case <-f.done:
		case <-ctx.Done():
		case <-late.C():
			return true
		}
	}
	return true
}

func (s *Store) finishPull(f *sharedPull) {
	s.mu.Lock()
	f.cancel(nil)
	// Another may have its place, if it was being ended.
	if s.pulls[f.key] == f {
		delete(s.pulls, f.key)
	}
	close(f.done)
	s.mu.Unlock()
	s.wake()
}

// wake makes Run look at the volume and the images again.
func (s *Store) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *Store) leavePull(f *sharedPull, u urgency) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.waiters--
	if u == foreground {
		f.pods--
	}
	if f.waiters > 0 {
		return
	}
	f.cancel(nil)
	// The next who asks starts anew rather than join a pull that is being ended.
	if s.pulls[f.key] == f {
		delete(s.pulls, f.key)
	}
}

// pullQueued waits in the queue and pulls. A pull with a credential is noted before it
// begins: what it leaves here is not for everybody, however it ends.
func (s *Store) pullQueued(ctx context.Context, f *sharedPull, c credential) (string, error) {
	leave, err := s.awaitQueue(ctx, f)
	if err != nil {
		return "", err
	}
	defer leave()
	if err := s.intend(ctx, f.ref.repository, c); err != nil {
		return "", err
	}
	digest, err := s.transfer(ctx, f, c)
	if err != nil {
		return "", err
	}
	s.ledger.proved(digest, c)
	return digest, nil
}

// intend notes a pull with a credential. Without knowing what was here before, none
// begins: nobody could tell later what it brought.
func (s *Store) intend(ctx context.Context, repository string, c credential) error {
	if c.none() || s.ledger.private(repository) {
		return nil
	}
	images, err := s.o.Source.Images(ctx)
	if err != nil {
		return fmt.Errorf("what is here of %s is not known before a pull with credentials: %w", repository, err)
	}
	var here []string
	for _, i := range images {
		ref, err := parseReference(i.Name)
		if err != nil || directory(ref.repository) != directory(repository) {
			continue
		}
		digest, err := s.digestOf(ctx, i)
		if err != nil {
			return err
		}
		if digest != "" {
			here = append(here, digest)
		}
	}
	return s.ledger.intend(repository, here)
}

// digestNow is empty when there is none.
func (s *Store) digestNow(ctx context.Context, name string) (string, error) {
	digest, err := s.o.Source.Digest(ctx, name)
	if errors.Is(err, vm.ErrNotFound) {
		return "", nil
	}
	return digest, err
}

// transfer pulls, and gives up when nothing comes any more.
func (s *Store) transfer(ctx context.Context, f *sharedPull, c credential) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	before := s.space(ctx)
	f.heard.Store(s.o.Clock.Now().UnixNano())
	o := vm.PullOptions{Credential: c.login(), Progress: func(percent int) {
		f.percent.Store(int32(percent))
		f.first.CompareAndSwap(-1, int32(percent))
		f.heard.Store(s.o.Clock.Now().UnixNano())
	}}
	go s.watchStall(ctx, cancel, f)
	digest, err := s.o.Source.Pull(ctx, f.ref.String(), o)
	var stalled *stalledError
	switch cause := context.Cause(ctx); {
	case err == nil:
		return digest, nil
	case errors.As(cause, &stalled), errors.Is(cause, errPreempted), errors.Is(cause, errNoRoom):
		return "", cause
	case errors.Is(err, vm.ErrNoSpace):
		return "", s.noSpace(ctx, f, before, err)
	}
	return "", err
}

// watchStall cancels when for the whole timeout nothing came. A tool that tells whole
// percents is silent for longer than that, and so is one that waits for another which an
// earlier process of ours began: so what lies on the volume is looked at before.
func (s *Store) watchStall(ctx context.Context, cancel context.CancelCauseFunc, f *sharedPull) {
	seen := s.arrived(f)
	t := s.o.Clock.NewTimer(s.o.StallTimeout)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C():
		}
		left := s.o.StallTimeout - s.quiet(f)
		if left <= 0 {
			now := s.arrived(f)
			if now == seen {
				cancel(&stalledError{Ref: f.ref.String(), Percent: int(f.percent.Load()), After: s.o.StallTimeout})
				return
			}
			seen, left = now, s.o.StallTimeout
		}
		t.Reset(left)
	}
}

// arrived is what has come of a pull, or of what it waits for in silence. Ours from other
// registries run beside it: what they bring says nothing of it.
func (s *Store) arrived(f *sharedPull) int64 {
	var beside []string
	s.mu.Lock()
	for host, q := range s.queues {
		if host != f.ref.host() {
			beside = append(beside, q.pulls)
		}
	}
	s.mu.Unlock()
	return s.o.Arrived(beside)
}

// noSpace says what was there, and from what came what the image needs.
func (s *Store) noSpace(ctx context.Context, f *sharedPull, before space, err error) error {
	e := &noSpaceError{Ref: f.ref.String(), Free: before.free, Total: before.total, Err: err}
	first, came := int64(f.first.Load()), int64(f.percent.Load())
	after := s.space(ctx)
	if took := before.free - after.free; first >= 0 && came > first && took > 0 && after.total > 0 {
		e.Needed = took / (came - first) * (100 - first)
	}
	return e
}
