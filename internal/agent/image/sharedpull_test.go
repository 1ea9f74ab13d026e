package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

type outcome struct {
	result Result
	err    error
}

// ask asks in the background.
func ask(ctx context.Context, s *Store, r Request) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		result, err := s.Ensure(ctx, r)
		done <- outcome{result, err}
	}()
	return done
}

// gated is a store whose pulls begin, and wait for the host's gate.
func gated(t *testing.T) (*fakeHost, *Store) {
	h := newHost()
	h.publish(base, 1, gb, "")
	h.gate = make(chan struct{})
	return h, New(options(t, h))
}

func waiters(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, f := range s.pulls {
		n += f.waiters
	}
	return n
}

func TestFiftyPodsAreOnePull(t *testing.T) {
	h, s := gated(t)
	var all []<-chan outcome
	for range 50 {
		all = append(all, ask(t.Context(), s, Request{Ref: base}))
	}
	await(t, "50 wait", func() bool { return waiters(s) == 50 })
	close(h.gate)
	for _, done := range all {
		if got := receive(t, "a Pod's image", done); got.err != nil || got.result.Digest != sha(1) {
			t.Errorf("%+v", got)
		}
	}
	if len(h.pulled()) != 1 {
		t.Errorf("pulls: %v", h.pulled())
	}
}

func TestPullOutlivesTheFirstWhoAsked(t *testing.T) {
	h, s := gated(t)
	first, leave := context.WithCancel(t.Context())
	gone := ask(first, s, Request{Ref: base})
	receive(t, "the pull", h.started)
	stays := ask(t.Context(), s, Request{Ref: base})
	await(t, "both wait", func() bool { return waiters(s) == 2 })
	leave()
	if got := receive(t, "the first's end", gone); !errors.Is(got.err, context.Canceled) {
		t.Errorf("the first was told %v", got.err)
	}
	close(h.gate)
	if got := receive(t, "the second's image", stays); got.err != nil || len(h.pulled()) != 1 {
		t.Errorf("%+v, pulls %v", got, h.pulled())
	}
}

func TestPullEndsWithItsLastWaiter(t *testing.T) {
	h, s := gated(t)
	ctx, leave := context.WithCancel(t.Context())
	gone := ask(ctx, s, Request{Ref: base})
	receive(t, "the pull", h.started)
	leave()
	receive(t, "the end", gone)
	await(t, "the pull was ended", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.running["r.test"] == 0
	})
	close(h.gate)
	if got := receive(t, "the next", ask(t.Context(), s, Request{Ref: base})); got.err != nil {
		t.Error(got.err)
	}
}

// The tool lets one pull of a registry run, so that a second one shows no progress;
// it must not be taken for stalled.
func TestARegistryServesOnePullAtATime(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "")
	h.publish("r.test/macos/other:v1", 2, gb, "")
	h.publish("other.test/macos/base:v1", 3, gb, "")
	h.gate = make(chan struct{})
	o := options(t, h)
	s := New(o)
	first := ask(t.Context(), s, Request{Ref: base})
	receive(t, "the first pull", h.started)
	second := ask(t.Context(), s, Request{Ref: "r.test/macos/other:v1"})
	await(t, "the second waits", func() bool { return waiters(s) == 2 })
	elsewhere := ask(t.Context(), s, Request{Ref: "other.test/macos/base:v1"})
	if ref := receive(t, "a pull from elsewhere", h.started); ref != "other.test/macos/base:v1" {
		t.Fatalf("%s runs beside the first", ref)
	}
	close(h.gate)
	for _, done := range []<-chan outcome{first, second, elsewhere} {
		if got := receive(t, "an image", done); got.err != nil {
			t.Error(got.err)
		}
	}
	if h.crowded {
		t.Error("two pulls of one registry at once")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queues) != 0 || len(s.pulls) != 0 {
		t.Errorf("left behind: queues %v, pulls %v", s.queues, s.pulls)
	}
}

// A Pod that waits behind the pull of another image is told of it, and when that is
// over; the first in the queue hears nothing.
func TestWhoWaitsForAnotherPullIsTold(t *testing.T) {
	const other = "r.test/macos/other:v1"
	h := newHost()
	h.publish(base, 1, gb, "")
	h.publish(other, 2, gb, "")
	h.gate = make(chan struct{})
	s := New(options(t, h))
	told := make(chan string, 10)
	heard := func(who string) func(string) {
		return func(behind string) { told <- who + " waits for " + behind }
	}
	first := ask(t.Context(), s, Request{Ref: base, Waits: heard("first")})
	receive(t, "the first pull", h.started)
	all := []<-chan outcome{first}
	for _, who := range []string{"second", "third"} {
		all = append(all, ask(t.Context(), s, Request{Ref: other, Waits: heard(who)}))
		if got, want := receive(t, "a word", told), who+" waits for "+base; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	all = append(all, ask(t.Context(), s, Request{Ref: base, Waits: heard("late")}))
	await(t, "four wait", func() bool { return waiters(s) == 4 })
	close(h.gate)
	for _, done := range all {
		if got := receive(t, "an image", done); got.err != nil {
			t.Error(got.err)
		}
	}
	close(told)
	over := map[string]int{}
	for word := range told {
		over[word]++
	}
	if d := cmp.Diff(map[string]int{"second waits for ": 1, "third waits for ": 1}, over); d != "" {
		t.Errorf("told after (-want +got):\n%s", d)
	}
}

// What one Pod may pull says nothing of another with other credentials.
func TestCredentialsArePulledWithApart(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "right")
	h.gate = make(chan struct{})
	s := New(options(t, h))
	good := ask(t.Context(), s, Request{Ref: base, PullSecrets: []corev1.Secret{secret("good", "r.test", "u", "right")}})
	receive(t, "the pull", h.started)
	bad := ask(t.Context(), s, Request{Ref: base, PullSecrets: []corev1.Secret{secret("bad", "r.test", "u", "wrong")}})
	await(t, "both wait", func() bool { return waiters(s) == 2 })
	close(h.gate)
	if got := receive(t, "the good one's", good); got.err != nil {
		t.Error(got.err)
	}
	if got := receive(t, "the bad one's", bad); got.err == nil {
		t.Error("a wrong credential got the image of a right one")
	}
}

func TestStall(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "")
	h.gate = make(chan struct{})
	o := options(t, h)
	clock := clockOf(o)
	s := New(o)
	done := ask(t.Context(), s, Request{Ref: base})
	receive(t, "the pull", h.started)
	await(t, "the watch", clock.HasWaiters)
	for percent := 1; percent <= 30; percent++ { // two hours in all: no limit to that
		clock.Step(4 * time.Minute)
		h.progress(percent)
		await(t, "the watch goes on", clock.HasWaiters)
	}
	await(t, "the end", func() bool {
		clock.Step(time.Minute)
		return len(done) > 0
	})
	got := <-done
	var stalled *stalledError
	if !errors.As(got.err, &stalled) || stalled.Percent != 30 || stalled.After != 5*time.Minute || Reason(got.err) != "ErrImagePull" {
		t.Fatalf("%+v", got)
	}
	if text := got.err.Error(); !strings.Contains(text, "stalled at 30 %") || !strings.Contains(text, base) {
		t.Error(text)
	}
}

// A Pod that waits for a large image is told how far it is, and that nothing comes.
func TestAPullTellsHowFarItIs(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "")
	h.gate = make(chan struct{})
	o := options(t, h)
	clock := clockOf(o)
	told := make(chan string, 1)
	done := ask(t.Context(), New(o), Request{Ref: base, Progress: func(percent int, quiet time.Duration) {
		told <- fmt.Sprintf("%d %s", percent, quiet)
	}})
	receive(t, "the pull", h.started)
	await(t, "the watch for a stall, and the minute", func() bool { return clock.Waiters() == 2 })
	for _, step := range []struct {
		come int
		want string
	}{{7, "7 1m0s"}, {0, "7 2m0s"}, {8, "8 1m0s"}} {
		if step.come > 0 {
			h.progress(step.come)
		}
		clock.Step(time.Minute)
		if got := receive(t, "a word", told); got != step.want {
			t.Errorf("told %q, want %q", got, step.want)
		}
	}
	close(h.gate)
	if got := receive(t, "the image", done); got.err != nil {
		t.Error(got.err)
	}
}

// A percent of a big image may take longer than a stall, and so may a pull that an earlier
// agent began, for which the tool waits in silence.
func TestBytesAreProgressBeforeTheNextPercent(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "")
	h.gate = make(chan struct{})
	o := options(t, h)
	var arrived atomic.Int64
	o.Arrived = func([]string) int64 { return arrived.Load() }
	clock := clockOf(o)
	done := ask(t.Context(), New(o), Request{Ref: base})
	receive(t, "the pull", h.started)
	watched := func() {
		t.Helper()
		await(t, "the watch goes on, or ends the pull", func() bool { return clock.HasWaiters() || len(done) > 0 })
	}
	watched()
	for range 12 { // an hour in all
		arrived.Add(1)
		clock.Step(defaultStallTimeout)
		if watched(); len(done) > 0 {
			t.Fatalf("taken for stalled: %v", (<-done).err)
		}
	}
	clock.Step(defaultStallTimeout)
	var stalled *stalledError
	if got := receive(t, "the end, as nothing comes", done); !errors.As(got.err, &stalled) {
		t.Fatal(got.err)
	}
}

// Pulls from two registries run beside each other: one that hangs is ended, though the other
// goes on.
func TestAPullThatHangsIsEndedBesideAnother(t *testing.T) {
	const elsewhere = "other.test/macos/base:v1"
	h := newHost()
	h.publish(base, 1, gb, "")
	h.publish(elsewhere, 2, gb, "")
	h.gate = make(chan struct{})
	o := options(t, h)
	var arrived atomic.Int64 // all of it is the other's
	o.Arrived = func(beside []string) int64 {
		if slices.Contains(beside, elsewhere) {
			return 0
		}
		return arrived.Load()
	}
	clock := clockOf(o)
	s := New(o)
	hangs := ask(t.Context(), s, Request{Ref: base})
	goesOn := ask(t.Context(), s, Request{Ref: elsewhere})
	for range 2 {
		receive(t, "a pull", h.started)
	}
	await(t, "the watches", func() bool { return clock.Waiters() == 2 })
	arrived.Add(1)
	clock.Step(defaultStallTimeout)
	var stalled *stalledError
	if got := receive(t, "the end, as nothing comes", hangs); !errors.As(got.err, &stalled) {
		t.Fatal(got.err)
	}
	close(h.gate)
	if got := receive(t, "the other image", goesOn); got.err != nil {
		t.Error(got.err)
	}
}
