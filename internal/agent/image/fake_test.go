package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const gb = int64(1e9)

// published is an image in the registry.
type published struct {
	digest string
	size   int64
	// password wanted; empty: none is.
	password string
}

// fakeHost is a Source with a registry behind it and a volume below.
type fakeHost struct {
	mu       sync.Mutex
	registry map[string]published
	held     map[string]string // name → digest
	sizes    map[string]int64
	accessed map[string]time.Time
	total    int64
	foreign  int64 // bytes that are not images
	partial  int64 // bytes of pulls that are not whole
	pulls    []string
	removed  []string
	failWith error // of the next pulls
	// gate, when set, is what each pull waits for after it told started.
	gate     chan struct{}
	started  chan string
	progress func(percent int) // of the last pull
	running  map[string]int    // pulls by registry
	crowded  bool              // two ran at once
}

func newHost() *fakeHost {
	return &fakeHost{
		registry: map[string]published{}, held: map[string]string{}, sizes: map[string]int64{}, accessed: map[string]time.Time{},
		total: 500 * gb, started: make(chan string, 100), running: map[string]int{},
	}
}

func sha(n int) string { return "sha256:" + fmt.Sprintf("%064x", n) }

// publish makes an image of the reference.
func (h *fakeHost) publish(ref string, n int, size int64, password string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.registry[ref] = published{digest: sha(n), size: size, password: password}
	at := repositoryOf(ref) + "@" + sha(n)
	h.registry[at] = h.registry[ref]
}

func repositoryOf(ref string) string {
	if at := strings.Index(ref, "@"); at >= 0 {
		return ref[:at]
	}
	return ref[:strings.LastIndex(ref, ":")]
}

func (h *fakeHost) Digest(_ context.Context, ref string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.held[ref]; d != "" {
		return d, nil
	}
	return "", fmt.Errorf("image %s: %w", ref, vm.ErrNotFound)
}

func (h *fakeHost) Pull(ctx context.Context, ref string, o vm.PullOptions) (string, error) {
	h.begin(ref, o)
	defer func() {
		h.mu.Lock()
		h.running[strings.Split(ref, "/")[0]]--
		h.mu.Unlock()
	}()
	if gate := h.gated(); gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), vm.ErrNoSpace) {
				h.set(func() { h.partial = 0 })
			}
			return "", fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
	}
	return h.finish(ref, o)
}

func (h *fakeHost) begin(ref string, o vm.PullOptions) {
	h.mu.Lock()
	user := "nobody"
	if o.Credential != nil {
		user = o.Credential.Username
	}
	h.pulls = append(h.pulls, user+" "+ref)
	h.progress = o.Progress
	registry := strings.Split(ref, "/")[0]
	h.running[registry]++
	h.crowded = h.crowded || h.running[registry] > 1
	h.mu.Unlock()
	select {
	case h.started <- ref:
	default: // the test looks at the first hundred
	}
}

func (h *fakeHost) gated() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gate
}

func (h *fakeHost) finish(ref string, o vm.PullOptions) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, found := h.registry[ref]
	switch {
	case h.failWith != nil:
		return "", h.failWith
	case !found:
		return "", vm.ErrImageNotFound
	case p.password != "" && (o.Credential == nil || o.Credential.Password != p.password):
		return "", vm.ErrAuth
	}
	if !h.has(p.digest) && h.used()+p.size > h.total {
		return "", fmt.Errorf("tart says %w", vm.ErrNoSpace)
	}
	h.keep(ref, p.digest, p.size)
	return p.digest, nil
}

func (h *fakeHost) keep(ref, digest string, size int64) {
	h.held[ref], h.sizes[digest] = digest, size
	h.held[repositoryOf(ref)+"@"+digest] = digest
}

func (h *fakeHost) has(digest string) bool {
	for _, d := range h.held {
		if d == digest {
			return true
		}
	}
	return false
}

func (h *fakeHost) used() int64 {
	used := h.foreign + h.partial
	for d, size := range h.sizes {
		if h.has(d) {
			used += size
		}
	}
	return used
}

func (h *fakeHost) Images(context.Context) ([]vm.Image, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var images []vm.Image
	for name, digest := range h.held {
		images = append(images, vm.Image{Name: name, Digest: digest, SizeBytes: h.sizes[digest], Accessed: h.accessed[digest]})
	}
	slices.SortFunc(images, func(a, b vm.Image) int { return strings.Compare(b.Name, a.Name) })
	return images, nil
}

func (h *fakeHost) RemoveImage(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, name)
	h.removed = append(h.removed, name)
	return nil
}

func (h *fakeHost) RemoveLeftovers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, pulls := range h.running {
		if pulls > 0 {
			return
		}
	}
	h.partial = 0
}

func (h *fakeHost) disk(context.Context) (free, total int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total - h.used(), h.total, nil
}

// here puts an image on the host that the store did not pull.
func (h *fakeHost) here(ref string, n int, size int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(ref, sha(n), size)
}

func (h *fakeHost) pulled() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.pulls)
}

func (h *fakeHost) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// quiet options over a host.
func options(t *testing.T, h *fakeHost) Options {
	t.Helper()
	return Options{
		Source: h, Dir: t.TempDir(), Disk: h.disk, Log: slog.New(slog.DiscardHandler),
		Clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
}

func clockOf(o Options) *testclock.FakeClock { return o.Clock.(*testclock.FakeClock) }

// secret of kubectl create secret docker-registry.
func secret(name, registry, username, password string) corev1.Secret {
	data, _ := json.Marshal(map[string]any{"auths": map[string]any{registry: map[string]string{"username": username, "password": password}}})
	s := corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: data}}
	s.Namespace, s.Name, s.UID = "team", name, types.UID("uid-"+name)
	return s
}

// await fails when what is waited for does not come.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-late:
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("waited in vain: %s", what)
		panic("unreachable")
	}
}
