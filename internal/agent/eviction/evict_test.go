package eviction

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/health"
)

// host is one whose pressure the test sets, with Pods that each hold some of what is short.
type host struct {
	mu      sync.Mutex
	found   []health.Finding
	changed chan struct{}
	// short is what it has too little of; images and pods are how many have to go before
	// it has enough of its disk, and of memory.
	images, pods map[corev1.ResourceName]int
	left         []Candidate
	// stuck Pods do not go.
	stuck bool
	// log is what was done, with the seconds since the beginning.
	log   []string
	began time.Time
}

func newHost(pods ...Candidate) *host {
	for i := range pods {
		pods[i].Pod.UID = types.UID(pods[i].Pod.Name)
	}
	return &host{changed: make(chan struct{}), images: map[corev1.ResourceName]int{}, pods: map[corev1.ResourceName]int{}, left: pods, began: time.Now()}
}

func (h *host) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%.0fs ", time.Since(h.began).Seconds())+fmt.Sprintf(format, args...))
}

func (h *host) Findings() []health.Finding {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.found
}

func (h *host) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func (h *host) LookAgain() {}

func (h *host) become(kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found = []health.Finding{{Type: kind, Status: status}}
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *host) short(context.Context) ([]health.Shortage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []health.Shortage
	for _, r := range []corev1.ResourceName{corev1.ResourceEphemeralStorage, corev1.ResourceMemory} {
		if h.images[r] > 0 || h.pods[r] > 0 {
			list = append(list, health.Shortage{Resource: r, Threshold: "15Gi", Available: "14Gi"})
		}
	}
	return list, nil
}

func (h *host) free(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("free")
	h.images[corev1.ResourceEphemeralStorage] = 0
	return nil
}

func (h *host) evict(uid types.UID, _ string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("evict %s", uid)
	h.left = slices.DeleteFunc(h.left, func(c Candidate) bool { return c.Pod.UID == uid })
	gone := make(chan struct{})
	if h.stuck {
		return gone
	}
	for r := range h.pods {
		h.pods[r]--
	}
	close(gone)
	return gone
}

// during plays for some time and returns what was done, each with its time.
func (h *host) during(t *testing.T, d time.Duration) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	m := New(Options{
		Host: h, Short: h.short, Free: h.free, Evict: h.evict, Log: slog.New(slog.DiscardHandler),
		Candidates: func(context.Context, corev1.ResourceName) []Candidate {
			h.mu.Lock()
			defer h.mu.Unlock()
			return slices.Clone(h.left)
		},
		Met: func(r corev1.ResourceName) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.note("met %s", r)
		},
	})
	if err := m.Run(ctx); err != nil {
		t.Error(err)
	}
	return h.log
}

func TestPodsGoOneByOneAndAfterImages(t *testing.T) {
	const disk, memory = corev1.ResourceEphemeralStorage, corev1.ResourceMemory
	for name, c := range map[string]struct {
		kind corev1.NodeConditionType
		set  func(h *host)
		want []string
	}{
		"images are enough": {corev1.NodeDiskPressure, func(h *host) { h.images[disk] = 1 }, []string{"0s met ephemeral-storage", "0s free"}},
		"a Pod goes": {corev1.NodeDiskPressure, func(h *host) { h.pods[disk] = 1 }, []string{
			"0s met ephemeral-storage", "0s free", "10s free", "10s evict b",
		}},
		"two Pods go": {corev1.NodeMemoryPressure, func(h *host) { h.pods[memory] = 2 }, []string{
			"0s met memory", "10s evict b", "20s met memory", "30s evict a",
		}},
		"a Pod that does not go is waited for": {corev1.NodeMemoryPressure, func(h *host) { h.pods[memory], h.stuck = 1, true }, []string{
			"0s met memory", "10s evict b", "50s met memory", "60s evict a", "100s met memory",
		}},
		"memory comes first": {corev1.NodeMemoryPressure, func(h *host) { h.pods[memory], h.pods[disk] = 1, 1 }, []string{
			"0s met memory", "0s met ephemeral-storage", "0s free", "10s evict b",
		}},
		"no Pod can go, and images are looked at rarely": {corev1.NodeDiskPressure, func(h *host) { h.pods[disk], h.left = 1, nil }, []string{
			"0s met ephemeral-storage", "0s free",
		}},
		"another condition": {corev1.NodeReady, func(h *host) { h.pods[disk] = 1 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(using("a", 10, "", 1), using("b", 0, "", 1))
				h.become(c.kind, corev1.ConditionTrue)
				c.set(h)
				if d := cmp.Diff(c.want, h.during(t, freeAgain-time.Second)); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			})
		})
	}
}

// What is shown for five minutes more is no reason to end a Pod, nor is what is short for
// a moment.
func TestAPressureThatIsOverEndsNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(using("a", 0, "", 1))
		h.become(corev1.NodeMemoryPressure, corev1.ConditionTrue)
		for after, short := range map[time.Duration]int{5 * time.Second: 1, 15 * time.Second: 0, 25 * time.Second: 1, 35 * time.Second: 0} {
			time.AfterFunc(after, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.pods[corev1.ResourceMemory] = short
			})
		}
		want := []string{"10s met memory", "30s met memory"}
		if d := cmp.Diff(want, h.during(t, time.Hour)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// Nothing is looked at while there is no pressure, and it is at once when there is.
func TestAPressureIsSeenToWhenItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		h.images[corev1.ResourceEphemeralStorage] = 1
		time.AfterFunc(time.Minute, func() { h.become(corev1.NodeDiskPressure, corev1.ConditionTrue) })
		want := []string{"60s met ephemeral-storage", "60s free"}
		if d := cmp.Diff(want, h.during(t, time.Hour)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}
