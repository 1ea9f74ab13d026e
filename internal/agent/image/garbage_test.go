package image

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func name(n int) string { return fmt.Sprintf("r.test/macos/base:v%d", n) }

// fill puts images of 50 GB on the host and uses them in the order of their numbers.
func fill(t *testing.T, h *fakeHost, s *Store, o Options, numbers ...int) {
	t.Helper()
	for _, n := range numbers {
		h.here(name(n), n, 50*gb)
		if _, err := s.Ensure(t.Context(), Request{Ref: name(n)}); err != nil {
			t.Fatal(err)
		}
		clockOf(o).Step(time.Minute)
	}
}

func (h *fakeHost) digests() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []string
	for n := range 100 {
		if h.has(sha(n)) {
			list = append(list, fmt.Sprint(n))
		}
	}
	return strings.Join(list, " ")
}

func TestGarbage(t *testing.T) {
	for name, c := range map[string]struct {
		foreign int64
		change  func(h *fakeHost, o *Options)
		left    string
		failed  bool
	}{
		"below the threshold":       {foreign: 150 * gb, left: "1 2 3 4 5"},
		"at the threshold":          {foreign: 175 * gb, left: "1 2 3 4 5"},
		"above, to the lower":       {foreign: 185 * gb, left: "2 3 4 5"},
		"far above":                 {foreign: 230 * gb, left: "3 4 5"},
		"lower one by the profile":  {foreign: 185 * gb, change: func(_ *fakeHost, o *Options) { o.LowPercent = 60 }, left: "4 5"},
		"higher one by the profile": {foreign: 185 * gb, change: func(_ *fakeHost, o *Options) { o.HighPercent = 90 }, left: "1 2 3 4 5"},
		"one is used by a Pod":      {foreign: 185 * gb, change: func(_ *fakeHost, o *Options) { o.InUse = func() []string { return []string{name(1)} } }, left: "1 3 4 5"},
		"used by its digest": {
			foreign: 185 * gb,
			change: func(_ *fakeHost, o *Options) {
				o.InUse = func() []string { return []string{"r.test/macos/base@" + sha(1)} }
			},
			left: "1 3 4 5",
		},
		"one is wanted beforehand": {foreign: 185 * gb, change: func(_ *fakeHost, o *Options) { o.PrePull = []string{name(1), "nonsense"} }, left: "1 3 4 5"},
		"the tool saw a later use": {
			foreign: 185 * gb,
			change:  func(h *fakeHost, o *Options) { h.accessed[sha(1)] = o.Clock.Now().Add(time.Hour) },
			left:    "1 3 4 5",
		},
		"all are used": {
			foreign: 185 * gb,
			change: func(_ *fakeHost, o *Options) {
				o.InUse = func() []string { return []string{name(1), name(2), name(3), name(4), name(5)} }
			},
			left: "1 2 3 4 5", failed: true,
		},
		"the disk is full of other things": {foreign: 480 * gb, change: func(_ *fakeHost, o *Options) { o.InUse = func() []string { return []string{name(5)} } }, left: "5", failed: true},
		"not all Pods are known":           {foreign: 230 * gb, change: func(_ *fakeHost, o *Options) { o.Known = func() bool { return false } }, left: "1 2 3 4 5"},
		"the volume shows it late": {
			foreign: 185 * gb,
			change: func(_ *fakeHost, o *Options) {
				o.Disk = func(context.Context) (int64, int64, error) { return 65 * gb, 500 * gb, nil }
			},
			left: "3 4 5", // one for each look
		},
		"the disk does not tell": {
			foreign: 230 * gb,
			change: func(_ *fakeHost, o *Options) {
				o.Disk = func(context.Context) (int64, int64, error) { return 0, 0, errors.New("df is gone") }
			},
			left: "1 2 3 4 5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost()
			o := options(t, h)
			var failures []string
			o.GarbageFailed = func(m string) { failures = append(failures, m) }
			if c.change != nil {
				c.change(h, &o)
			}
			s := New(o)
			fill(t, h, s, o, 1, 2, 3, 4, 5)
			h.foreign = c.foreign
			s.tidy(t.Context())
			s.tidy(t.Context()) // a second look changes nothing and tells nothing new
			if len(failures) > 1 {
				t.Errorf("told at once: %q", failures)
			}
			if got := h.digests(); got != c.left || (len(failures) > 0) != c.failed {
				t.Errorf("left %q, want %q; failures %q", got, c.left, failures)
			}
			if c.failed && !strings.Contains(failures[0], "above 85 %") {
				t.Error(failures)
			}
		})
	}
}

// A host that is short of disk keeps what it can, and nothing when that was not
// enough: another volume, or another threshold, may be what it is short of.
func TestRelief(t *testing.T) {
	h := newHost()
	o := options(t, h)
	o.InUse = func() []string { return []string{name(2)} }
	o.HighPercent = 95
	s := New(o)
	fill(t, h, s, o, 1, 2, 3, 4)
	h.foreign = 240 * gb // with 200 GB of images: 88 %
	for _, left := range []string{"2 3 4", "2"} {
		if err := s.FreeNow(t.Context()); err != nil || h.digests() != left {
			t.Errorf("left %q, want %q; %v", h.digests(), left, err)
		}
	}
}

// What ends the shortage is enough, also where the profile lets images stay beyond it.
func TestReliefEndsWhereTheShortageDoes(t *testing.T) {
	for low, left := range map[int]string{90: "2 3 4", 84: "2 3 4", 60: "4"} {
		h := newHost()
		o := options(t, h)
		o.HighPercent, o.LowPercent = 95, low
		s := New(o)
		fill(t, h, s, o, 1, 2, 3, 4)
		h.foreign = 220 * gb // with 200 GB of images: 84 %
		if err := s.FreeNow(t.Context()); err != nil || h.digests() != left {
			t.Errorf("to %d %%: left %q, want %q; %v", low, h.digests(), left, err)
		}
	}
}

// All names of an image go, tags before the digest that would stay with them.
func TestAnImageGoesWithAllItsNames(t *testing.T) {
	h := newHost()
	s := New(options(t, h))
	h.here(name(1), 1, gb)
	h.here("r.test/macos/base:latest", 1, gb)
	if err := s.FreeNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{name(1), "r.test/macos/base:latest", "r.test/macos/base@" + sha(1)}
	if diff := cmp.Diff(want, h.removed); diff != "" {
		t.Errorf("removed (-want +got)\n%s", diff)
	}
	if images := s.Images(); len(images) != 0 {
		t.Errorf("the Node still shows %v", images)
	}
}

// What is pulled anew is not removed meanwhile, nor what a Pod got meanwhile.
func TestAnImageInHandIsNoGarbage(t *testing.T) {
	h := newHost()
	h.publish(name(1), 1, gb, "")
	h.here(name(1), 1, gb)
	h.gate = make(chan struct{})
	s := New(options(t, h))
	pod := ask(t.Context(), s, Request{Ref: name(1), Policy: corev1.PullAlways})
	receive(t, "the pull", h.started)
	if err := s.FreeNow(t.Context()); err != nil || h.digests() != "1" {
		t.Errorf("left %q, %v", h.digests(), err)
	}
	close(h.gate)
	if got := receive(t, "the image", pod); got.err != nil {
		t.Fatal(got.err)
	}
	list, err := s.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since := s.o.Clock.Now().Add(-time.Minute)
	if gone, err := s.remove(t.Context(), list[0], since); gone || err != nil || h.digests() != "1" {
		t.Errorf("removed %t, %v", gone, err)
	}
}

// Who an image was for is forgotten with it, but not what its repository is.
func TestARemovedImageLeavesNoRecord(t *testing.T) {
	h := newHost()
	h.publish(name(1), 1, gb, "p")
	s := New(options(t, h))
	r := Request{Ref: name(1), PullSecrets: []corev1.Secret{secret("a", "r.test", "u", "p")}}
	if _, err := s.Ensure(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := s.FreeNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if record, kept := s.ledger.kept.Images[sha(1)]; kept {
		t.Errorf("kept %+v", record)
	}
	h.here(name(1), 1, gb)
	r.Policy = corev1.PullNever
	if _, err := s.Ensure(t.Context(), r); !errors.Is(err, errNeverPull) {
		t.Errorf("the credentials of the image before: %v", err)
	}
}

// A name without a tag is the one with latest.
func TestAPodsImageWithoutATagIsInUse(t *testing.T) {
	h := newHost()
	o := options(t, h)
	o.InUse = func() []string { return []string{"r.test/macos/base"} }
	h.here("r.test/macos/base:latest", 1, gb)
	if err := New(o).FreeNow(t.Context()); err != nil || h.digests() != "1" {
		t.Errorf("left %q, %v", h.digests(), err)
	}
}

// slowRemoval lets something happen while an image is being removed.
type slowRemoval struct {
	*fakeHost
	begun, goOn chan struct{}
	once        sync.Once
	fail        error
}

func (s *slowRemoval) RemoveImage(ctx context.Context, name string) error {
	s.once.Do(func() { close(s.begun) })
	<-s.goOn
	if s.fail != nil {
		return s.fail
	}
	return s.fakeHost.RemoveImage(ctx, name)
}

// A Pod that asks while its image is being removed does not get a name of nothing.
func TestAnImageThatIsBeingRemovedIsPulledAnew(t *testing.T) {
	h := newHost()
	h.publish(name(1), 1, gb, "")
	h.here(name(1), 1, gb)
	slow := &slowRemoval{fakeHost: h, begun: make(chan struct{}), goOn: make(chan struct{})}
	o := options(t, h)
	o.Source = slow
	s := New(o)
	freed := make(chan error, 1)
	go func() { freed <- s.FreeNow(t.Context()) }()
	receive(t, "the removal", slow.begun)
	pod := ask(t.Context(), s, Request{Ref: name(1)})
	select {
	case got := <-pod:
		t.Fatalf("did not wait: %+v", got)
	case <-time.After(20 * time.Millisecond):
	}
	close(slow.goOn)
	if err := receive(t, "the removal's end", freed); err != nil {
		t.Error(err)
	}
	if got := receive(t, "the image", pod); got.err != nil || !got.result.Pulled || h.digests() != "1" {
		t.Errorf("%+v, held %s", got, h.digests())
	}
}

func TestAnImageThatCannotBeRemovedIsSaid(t *testing.T) {
	h := newHost()
	o := options(t, h)
	slow := &slowRemoval{fakeHost: h, begun: make(chan struct{}), goOn: make(chan struct{}), fail: vm.ErrUnusable}
	close(slow.goOn)
	o.Source = slow
	var failures []string
	o.GarbageFailed = func(m string) { failures = append(failures, m) }
	s := New(o)
	fill(t, h, s, o, 1)
	h.foreign = 440 * gb
	s.tidy(t.Context())
	if len(failures) != 1 || !strings.Contains(failures[0], "cannot be removed") || !strings.Contains(failures[0], name(1)) {
		t.Error(failures)
	}
}

// A random workload never leaves less than 15 % of the volume free for longer than
// one look at it, and no running Pod loses its image.
func TestFreeSpaceIsKept(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	h := newHost()
	o := options(t, h)
	var inUse []string
	o.InUse = func() []string { return inUse }
	s := New(o)
	for n := range 30 {
		h.publish(name(n), n, int64(20+random.IntN(60))*gb, "")
	}
	for range 1000 {
		ref := name(random.IntN(30))
		inUse = append(inUse[max(0, len(inUse)-1):], ref) // two guests at most
		if _, err := s.Ensure(t.Context(), Request{Ref: ref, Policy: corev1.PullIfNotPresent}); err != nil {
			t.Fatal(err)
		}
		clockOf(o).Step(time.Duration(random.IntN(600)) * time.Second)
		s.tidy(t.Context())
		if free, total, _ := h.disk(t.Context()); free*100 < total*15 {
			t.Fatalf("%d GB of %d GB free, held %s", free/gb, total/gb, h.digests())
		}
		for _, ref := range inUse {
			if _, err := h.Digest(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		}
	}
	if pulls := len(h.pulled()); pulls == 1000 {
		t.Error("nothing was ever kept")
	}
}
