package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// run lets a store run until the test ends, and what it pulls come to its end.
func run(t *testing.T, s *Store) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		await(t, "the last pull writes no more", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.queues) == 0
		})
	})
}

func TestImagesForTheNode(t *testing.T) {
	h := newHost()
	s := New(options(t, h))
	h.here("r.test/macos/small:v1", 1, 20*gb)
	h.here("r.test/macos/big:v1", 2, 60*gb)
	h.here("r.test/macos/big:latest", 2, 60*gb)
	h.here("mirror.test/big:v1", 2, 60*gb)
	s.refresh(t.Context())
	want := []corev1.ContainerImage{
		{Names: []string{"mirror.test/big@" + sha(2), "r.test/macos/big@" + sha(2), "mirror.test/big:v1", "r.test/macos/big:latest", "r.test/macos/big:v1"}, SizeBytes: 60 * gb},
		{Names: []string{"r.test/macos/small@" + sha(1), "r.test/macos/small:v1"}, SizeBytes: 20 * gb},
	}
	if diff := cmp.Diff(want, s.Images()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for n := range 60 {
		h.here(name(n), 10+n, gb)
		h.here(fmt.Sprintf("r.test/macos/big:w%d", n), 2, 60*gb)
	}
	s.refresh(t.Context())
	if images := s.Images(); len(images) != 50 || len(images[0].Names) != 5 {
		t.Errorf("%d images, the first with %d names", len(images), len(images[0].Names))
	}
}

func TestRunShowsWhatAPodPulled(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "")
	o := options(t, h)
	s := New(o)
	run(t, s)
	if got := receive(t, "the image", ask(t.Context(), s, Request{Ref: base})); got.err != nil {
		t.Fatal(got.err)
	}
	await(t, "the Node shows it", func() bool { return len(s.Images()) == 1 })
	// A use is written soon, too: it is what decides who goes first.
	file := filepath.Join(o.Dir, "images.json")
	await(t, "the use is on the disk", func() bool {
		clockOf(o).Step(time.Minute)
		data, _ := os.ReadFile(file)
		return strings.Contains(string(data), `"used"`)
	})
}

func TestUsesAreWrittenAtTheEnd(t *testing.T) {
	h := newHost()
	h.here(base, 1, gb)
	o := options(t, h)
	s := New(o)
	if _, err := s.Ensure(t.Context(), Request{Ref: base}); err != nil {
		t.Fatal(err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Run(ended); err != nil {
		t.Fatal(err)
	}
	if got := New(o).ledger.used(sha(1)); !got.Equal(o.Clock.Now()) {
		t.Errorf("kept %v", got)
	}
}

func TestPrePull(t *testing.T) {
	h := newHost()
	second, pinned := "r.test/macos/second:v1", "r.test/macos/pinned@"+sha(3)
	h.publish(base, 1, gb, "")
	h.publish(second, 2, gb, "")
	h.publish(pinned, 3, gb, "")
	o := options(t, h)
	o.PrePull = []string{base, "no reference", second, pinned, "r.test/macos/missing:v1"}
	// The watches for a stall begin no timer: the clock has the ticker of Run, and another
	// waiter only while nothing is due.
	o.Arrived = func([]string) int64 { <-t.Context().Done(); return 0 }
	s := New(o)
	run(t, s)
	await(t, "all were tried", func() bool { return len(h.pulled()) == 4 })
	if h.digests() != "1 2 3" {
		t.Errorf("held %s", h.digests())
	}
	// Tags are looked up again each hour, digests are not; what failed comes sooner.
	h.publish(base, 4, gb, "")
	await(t, "the tag has moved", func() bool {
		if clockOf(o).Waiters() == 2 { // what was due has been pulled
			clockOf(o).Step(time.Minute)
		}
		d, _ := h.Digest(t.Context(), base)
		return d == sha(4)
	})
	count := map[string]int{}
	for _, p := range h.pulled() {
		count[strings.TrimPrefix(p, "nobody ")]++
	}
	if count[pinned] != 1 || count["r.test/macos/missing:v1"] < 3 || count[base] != 2 {
		t.Errorf("pulls: %v", count)
	}
}

// What cannot be pulled beforehand is told of now and then, and what can is not.
func TestAPrePullThatFailsIsTold(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "")
	o := options(t, h)
	o.PrePull = []string{base, "r.test/macos/missing:v1"}
	type tale struct {
		at      time.Time
		message string
	}
	tales := make(chan tale, 100)
	o.PrePullFailed = func(m string) { tales <- tale{clockOf(o).Now(), m} }
	run(t, New(o))
	await(t, "it was told three times", func() bool {
		clockOf(o).Step(10 * time.Second)
		return len(tales) >= 3
	})
	var last time.Time
	for range 3 {
		got := <-tales
		if since := got.at.Sub(last); since < prePullTold {
			t.Errorf("told again after %s", since)
		}
		last = got.at
		if !strings.HasPrefix(got.message, "image r.test/macos/missing:v1 is not pulled beforehand: ") || !strings.Contains(got.message, vm.ErrImageNotFound.Error()) {
			t.Errorf("message %q", got.message)
		}
	}
}

func TestPrePullGivesWayToAPod(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "")
	h.publish("r.test/macos/urgent:v1", 2, gb, "")
	h.gate = make(chan struct{})
	o := options(t, h)
	o.PrePull = []string{base}
	s := New(o)
	run(t, s)
	receive(t, "the pull beforehand", h.started)
	pod := ask(t.Context(), s, Request{Ref: "r.test/macos/urgent:v1"})
	if ref := receive(t, "the Pod's pull", h.started); ref != "r.test/macos/urgent:v1" {
		t.Fatalf("pulls %s first", ref)
	}
	close(h.gate)
	if got := receive(t, "the Pod's image", pod); got.err != nil {
		t.Fatal(got.err)
	}
	await(t, "the other comes after", func() bool {
		clockOf(o).Step(10 * time.Second)
		return h.digests() == "1 2"
	})
	if h.crowded {
		t.Error("two pulls of one registry at once")
	}
}

// A Pod that wants what is being pulled beforehand gets that very pull, and keeps
// it from giving way.
func TestAPodTakesOverAPrePull(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "")
	h.publish("r.test/macos/other:v1", 2, gb, "")
	h.gate = make(chan struct{})
	o := options(t, h)
	o.PrePull = []string{base}
	s := New(o)
	run(t, s)
	receive(t, "the pull beforehand", h.started)
	pod := ask(t.Context(), s, Request{Ref: base})
	await(t, "both wait", func() bool { return waiters(s) == 2 })
	other := ask(t.Context(), s, Request{Ref: "r.test/macos/other:v1"})
	await(t, "three wait", func() bool { return waiters(s) == 3 })
	close(h.gate)
	for _, done := range []<-chan outcome{pod, other} {
		if got := receive(t, "an image", done); got.err != nil {
			t.Error(got.err)
		}
	}
	if diff := cmp.Diff([]string{"nobody " + base, "nobody r.test/macos/other:v1"}, h.pulled()); diff != "" {
		t.Errorf("pulls (-want +got)\n%s", diff)
	}
}

// A Pod with credentials of its own pulls by itself, after the pull beforehand: that brings
// what it wants, or fails for want of credentials. Another Pod does not end it either.
func TestAPodWithCredentialsWaitsForAPrePull(t *testing.T) {
	for password, brings := range map[string]bool{"": true, "right": false} {
		h := newHost()
		h.publish(base, 1, gb, password)
		h.publish("r.test/macos/other:v1", 2, gb, "")
		h.gate = make(chan struct{})
		o := options(t, h)
		o.PrePull = []string{base}
		s := New(o)
		run(t, s)
		receive(t, "the pull beforehand", h.started)
		pod := ask(t.Context(), s, Request{Ref: base, PullSecrets: []corev1.Secret{secret("a", "r.test", "u", "right")}})
		await(t, "both wait", func() bool { return waiters(s) == 2 })
		other := ask(t.Context(), s, Request{Ref: "r.test/macos/other:v1"})
		await(t, "three wait", func() bool { return waiters(s) == 3 })
		close(h.gate)
		for _, done := range []<-chan outcome{pod, other} {
			if got := receive(t, "an image", done); got.err != nil {
				t.Error(got.err)
			}
		}
		if h.digests() != "1 2" || h.crowded {
			t.Errorf("held %s, crowded %t", h.digests(), h.crowded)
		}
		pulls := h.pulled()
		slices.Sort(pulls[1:])
		if diff := cmp.Diff([]string{"nobody " + base, "nobody r.test/macos/other:v1", "u " + base}, pulls); diff != "" {
			t.Errorf("pulls (-want +got)\n%s", diff)
		}
		if known := s.ledger.allows(repositoryOf(base), sha(1), nil); known != brings {
			t.Errorf("everybody may have it: %t, want %t", known, brings)
		}
	}
}

func TestPrePullDoesNotFillAFullVolume(t *testing.T) {
	h := newHost()
	h.publish(base, 1, gb, "")
	h.foreign = 440 * gb
	s := New(options(t, h))
	ref, err := parseReference(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.prePullOne(t.Context(), ref); err == nil || len(h.pulled()) != 0 {
		t.Errorf("%v, pulls %v", err, h.pulled())
	}
	// Nor is a tag looked up that is here: where it has moved, that is a whole image.
	h.here(base, 1, gb)
	if err := s.prePullOne(t.Context(), ref); err == nil || len(h.pulled()) != 0 {
		t.Errorf("one that is here: %v, pulls %v", err, h.pulled())
	}
	h.foreign = 400 * gb
	if err := s.prePullOne(t.Context(), ref); err != nil || len(h.pulled()) != 1 {
		t.Errorf("with room again: %v, pulls %v", err, h.pulled())
	}
}

const newBase = "r.test/macos/new:v1"

// beforehand pulls newBase for nobody, as far as so many bytes.
func beforehand(t *testing.T, h *fakeHost, s *Store, bytes int64) (ended <-chan error) {
	t.Helper()
	h.publish(newBase, 90, 60*gb, "")
	h.set(func() { h.gate = make(chan struct{}) })
	ref, err := parseReference(newBase)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.prePullOne(t.Context(), ref) }()
	receive(t, "the pull beforehand", h.started)
	h.set(func() { h.partial = bytes })
	return done
}

// A pull that no Pod waits for takes the place of images that nobody needs, and of nothing
// else: Pods would end for it next.
func TestAPrePullEndsBeforePodsDo(t *testing.T) {
	looks := map[string]func(*testing.T, *Store){
		"the volume is looked at": func(t *testing.T, s *Store) { s.tidy(t.Context()) },
		"the host is short of disk": func(t *testing.T, s *Store) {
			if err := s.FreeNow(t.Context()); err != nil {
				t.Error(err)
			}
		},
	}
	for what, look := range looks {
		for name, c := range map[string]struct {
			foreign int64
			images  []int
			goesOn  bool
			left    string
		}{
			"images that nobody needs are enough": {foreign: 160 * gb, images: []int{1, 2, 3, 4}, goesOn: true, left: "3 4"},
			"they are not":                        {foreign: 310 * gb, images: []int{1}, left: ""},
		} {
			t.Run(what+", "+name, func(t *testing.T) {
				h := newHost()
				o := options(t, h)
				s := New(o)
				fill(t, h, s, o, c.images...)
				h.foreign = c.foreign
				ended := beforehand(t, h, s, 140*gb)
				look(t, s)
				if got := h.digests(); got != c.left {
					t.Errorf("left %q, want %q", got, c.left)
				}
				if c.goesOn {
					if len(ended) > 0 {
						t.Fatalf("it was ended: %v", <-ended)
					}
					h.set(func() { h.partial = 0 })
					close(h.gate)
					if err := receive(t, "the image", ended); err != nil {
						t.Error(err)
					}
					return
				}
				err := receive(t, "the end", ended)
				if !errors.Is(err, errNoRoom) || (&wanted{}).after(err) != prePullFirst {
					t.Errorf("ended with %v", err)
				}
				if h.partial != 0 {
					t.Error("what had come is there still")
				}
			})
		}
	}
}

// Nobody sees what the other volumes of the host have: with the room that they share, a pull
// that no Pod waits for goes, and what one has left that gave way before.
func TestAPrePullEndsForAnotherVolume(t *testing.T) {
	h := newHost()
	o := options(t, h)
	o.PrePull = []string{base}
	told := make(chan string, 1)
	o.PrePullFailed = func(m string) { told <- m }
	h.publish(base, 1, gb, "")
	h.gate, h.partial = make(chan struct{}), 10*gb
	s := New(o)
	run(t, s)
	receive(t, "the pull beforehand", h.started)
	if err := s.FreeNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, "an event", told); !strings.Contains(m, base) || !strings.Contains(m, "short of disk") {
		t.Errorf("told %q", m)
	}
	h.set(func() { h.partial = 10 * gb })
	if err := s.FreeNow(t.Context()); err != nil || h.partial != 0 {
		t.Errorf("left %d bytes of pulls, %v", h.partial, err)
	}
}

// A Pod's pull goes on whatever the volume has, for as long as the Pod waits.
func TestAPrePullIsAPodsWhileThePodWaits(t *testing.T) {
	h := newHost()
	s := New(options(t, h))
	h.foreign = 400 * gb
	ended := beforehand(t, h, s, 60*gb)
	waits, leave := context.WithCancel(t.Context())
	pod := ask(waits, s, Request{Ref: newBase})
	await(t, "both wait", func() bool { return waiters(s) == 2 })
	s.tidy(t.Context())
	if len(ended)+len(pod) > 0 {
		t.Fatal("a pull that a Pod waits for was ended")
	}
	leave()
	receive(t, "the Pod's end", pod)
	s.tidy(t.Context())
	if err := receive(t, "the end", ended); !errors.Is(err, errNoRoom) {
		t.Errorf("ended with %v", err)
	}
}

func TestDelaysOfPrePulls(t *testing.T) {
	w := &wanted{}
	fails := errors.New("down")
	var got []time.Duration
	for _, err := range []error{fails, fails, errPreempted, fails, nil, fails} {
		got = append(got, w.after(err))
	}
	want := []time.Duration{time.Minute, 2 * time.Minute, 30 * time.Second, 4 * time.Minute, time.Hour, time.Minute}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for range 100 {
		if d := w.after(fails); d < time.Minute || d > time.Hour {
			t.Fatalf("waits %s", d)
		}
	}
}
