package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/tart"
)

// simulatedTart builds the simulated tart once; it is told everything by files.
var simulatedTart = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tk-image")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tart")
	cmd := exec.Command("go", "build", "-o", path, "github.com/macfleet/macfleet/sandbox/mac/tart/cmd/tart")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := simulatedTart(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// tartHost is the driver of a simulated tart that notes the progress of pulls.
type tartHost struct {
	*tart.Driver
	dir string

	mu       sync.Mutex
	percents map[string][]int
}

func newTart(t *testing.T, plan map[string]any) *tartHost {
	t.Helper()
	path, err := simulatedTart()
	if err != nil {
		t.Fatalf("building the simulated tart: %v", err)
	}
	h := &tartHost{dir: t.TempDir(), percents: map[string][]int{}}
	for _, d := range []string{"home", "state", "registry"} {
		if err := os.Mkdir(filepath.Join(h.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.Driver = tart.New(tart.Options{Path: path, Home: filepath.Join(h.dir, "home"), Environ: []string{
		"HOME=" + h.dir, "PATH=/usr/bin:/bin",
		"TART_FAKE_FAULTS=" + filepath.Join(h.dir, "plan.json"),
		"TART_FAKE_STATE=" + filepath.Join(h.dir, "state"),
		"TART_FAKE_LEASES=" + filepath.Join(h.dir, "leases"),
		"TART_FAKE_JOURNAL=" + filepath.Join(h.dir, "journal"),
		"TART_FAKE_REGISTRY=" + filepath.Join(h.dir, "registry"),
	}})
	h.plan(t, plan)
	for _, ref := range []string{"macos/base/v1", "macos/base/v2"} { // one content, one digest
		h.write(t, filepath.Join("registry", "r.test", ref+".json"), map[string]any{"bytes": 1000})
	}
	h.write(t, filepath.Join("registry", "r.test", "private/base/v1.json"), map[string]any{"status": 401})
	return h
}

func (h *tartHost) plan(t *testing.T, plan map[string]any) {
	t.Helper()
	h.write(t, "plan.json", plan)
}

func (h *tartHost) write(t *testing.T, name string, content map[string]any) {
	t.Helper()
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (h *tartHost) Pull(ctx context.Context, ref string, o vm.PullOptions) (string, error) {
	tell := o.Progress
	o.Progress = func(percent int) {
		tell(percent) // first: what a test sees here, the store knows
		h.mu.Lock()
		h.percents[ref] = append(h.percents[ref], percent)
		h.mu.Unlock()
	}
	return h.Driver.Pull(ctx, ref, o)
}

func (h *tartHost) progress(ref string) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.percents[ref])
}

// call is one tart that was executed.
type call struct {
	Event     string
	PID       int
	Argv, Env []string
}

func (h *tartHost) calls(t *testing.T, subcommand string) []call {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(h.dir, "journal"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var calls []call
	for line := range strings.Lines(string(data)) {
		var c call
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		if c.Event == "start" && slices.Contains(c.Argv, subcommand) {
			calls = append(calls, c)
		}
	}
	return calls
}

func storeOf(t *testing.T, h *tartHost, o Options) *Store {
	t.Helper()
	o.Source, o.Dir, o.Log = h, t.TempDir(), slog.New(slog.DiscardHandler)
	return New(o)
}

const (
	tagV1   = "r.test/macos/base:v1"
	tagV2   = "r.test/macos/base:v2"
	private = "r.test/private/base:v1"
)

func TestFortyPodsOfOneDigestAreOneTransfer(t *testing.T) {
	h := newTart(t, map[string]any{"pullDelay": "300ms"})
	s := storeOf(t, h, Options{})
	var all []<-chan outcome
	for i := range 40 {
		all = append(all, ask(t.Context(), s, Request{Ref: []string{tagV1, tagV2}[i%2]}))
	}
	digests := map[string]bool{}
	for _, done := range all {
		got := receive(t, "an image", done)
		if got.err != nil {
			t.Fatal(got.err)
		}
		digests[got.result.Ref] = true
	}
	transfers := 0
	for _, tag := range []string{tagV1, tagV2} {
		if p := h.progress(tag); slices.Contains(p, 50) {
			transfers++
		}
	}
	if len(digests) != 1 || transfers != 1 || len(h.calls(t, "pull")) != 2 {
		t.Errorf("names %v, %d transfers, %d pulls", digests, transfers, len(h.calls(t, "pull")))
	}
}

func TestAPullIsResumedAfterAKill(t *testing.T) {
	h := newTart(t, map[string]any{"faults": []any{map[string]any{"kind": "pull-stalls"}}})
	ref := h.pinned(t)
	s := storeOf(t, h, Options{})
	done := ask(t.Context(), s, Request{Ref: ref})
	await(t, "the pull is half way", func() bool { return slices.Contains(h.progress(ref), 50) })
	h.plan(t, nil)
	if err := syscall.Kill(h.calls(t, "pull")[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, "the end", done); got.err == nil {
		t.Fatal("half an image is taken for whole")
	}
	goesOn(t, h, s, ref, 50)
}

// pinned is the image by its digest, as the simulated registry makes it of its description.
func (h *tartHost) pinned(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(h.dir, "registry", "r.test", "macos", "base", "v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("r.test/macos/base@sha256:%x", sha256.Sum256(append([]byte("r.test/macos/base\n"), data...)))
}

// goesOn pulls after what Run does when a pull has ended: it lists the images, at which
// the tool removes what nobody has locked.
func goesOn(t *testing.T, h *tartHost, s *Store, ref string, percent int) {
	t.Helper()
	s.refresh(t.Context())
	before := len(h.progress(ref))
	if _, err := s.Ensure(t.Context(), Request{Ref: ref}); err != nil {
		t.Fatal(err)
	}
	if again := h.progress(ref)[before:]; len(again) == 0 || again[0] != percent {
		t.Errorf("told %v, want the first to be %d", again, percent)
	}
}

func TestAPrePullThatGaveWayGoesOn(t *testing.T) {
	h := newTart(t, map[string]any{"faults": []any{map[string]any{"kind": "pull-stalls", "name": "base@"}}})
	s := storeOf(t, h, Options{})
	ref := h.pinned(t)
	parsed, err := parseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.prePullOne(t.Context(), parsed) }()
	await(t, "the pull is half way", func() bool { return slices.Contains(h.progress(ref), 50) })
	h.write(t, "registry/r.test/macos/urgent/v1.json", map[string]any{"bytes": 2000})
	if _, err := s.Ensure(t.Context(), Request{Ref: "r.test/macos/urgent:v1"}); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, "the end", ended); !errors.Is(err, errPreempted) {
		t.Fatal(err)
	}
	h.plan(t, nil)
	goesOn(t, h, s, ref, 50)
}

func TestAStalledPullIsGivenUpAndGoesOn(t *testing.T) {
	h := newTart(t, map[string]any{"faults": []any{map[string]any{"kind": "pull-stalls"}}})
	clock := clocktesting.NewFakeClock(time.Now()) // the tool may be slow to start
	ref := h.pinned(t)
	s := storeOf(t, h, Options{Clock: clock})
	done := ask(t.Context(), s, Request{Ref: ref})
	await(t, "the pull is half way", func() bool { return slices.Contains(h.progress(ref), 50) })
	await(t, "the watch", clock.HasWaiters)
	clock.Step(defaultStallTimeout)
	got := receive(t, "the end", done)
	var stalled *stalledError
	if !errors.As(got.err, &stalled) || stalled.Percent != 50 {
		t.Fatal(got.err)
	}
	h.plan(t, nil)
	goesOn(t, h, s, ref, 50)
}

func TestCredentialsAreInOneChildOnly(t *testing.T) {
	h := newTart(t, map[string]any{"credentials": map[string]string{"private": "robot:s3cret"}})
	s := storeOf(t, h, Options{})
	r := Request{Ref: private, PullSecrets: []corev1.Secret{secret("other", "r.test", "robot", "gu3ss"), secret("good", "r.test/private", "robot", "s3cret")}}
	if _, err := s.Ensure(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ensure(t.Context(), Request{Ref: private}); !errors.Is(err, vm.ErrAuth) {
		t.Errorf("without: %v", err)
	}
	s.refresh(t.Context())
	pulls := h.calls(t, "pull")
	if len(pulls) != 2 || !slices.Contains(pulls[0].Env, "TART_REGISTRY_PASSWORD") || slices.Contains(pulls[1].Env, "TART_REGISTRY_PASSWORD") {
		t.Errorf("pulls %+v", pulls)
	}
	for _, c := range h.calls(t, "list") {
		if slices.Contains(c.Env, "TART_REGISTRY_PASSWORD") {
			t.Errorf("list has the credentials")
		}
	}
	err := filepath.WalkDir(s.o.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), "s3cret") {
			t.Errorf("%s: %s, %v", path, data, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Machines are never garbage, nor does one that runs keep its image.
func TestGarbageOfTart(t *testing.T) {
	h := newTart(t, nil)
	s := storeOf(t, h, Options{InUse: func() []string { return []string{private} }})
	for _, ref := range []string{tagV1, tagV2} {
		if _, err := s.Ensure(t.Context(), Request{Ref: ref}); err != nil {
			t.Fatal(err)
		}
	}
	h.plan(t, map[string]any{"credentials": map[string]string{"private": "u:p"}})
	got, err := s.Ensure(t.Context(), Request{Ref: private, PullSecrets: []corev1.Secret{secret("s", "r.test", "u", "p")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Create(t.Context(), "tk-a-0", tagV1, vm.Shape{}); err != nil {
		t.Fatal(err)
	}
	if err := s.FreeNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	images := s.Images()
	if len(images) != 1 || images[0].Names[0] != got.Ref {
		t.Errorf("left %+v", images)
	}
	if _, err := h.Machine(t.Context(), "tk-a-0"); err != nil {
		t.Error(err)
	}
	if _, err := h.Digest(t.Context(), tagV1); !errors.Is(err, vm.ErrNotFound) {
		t.Errorf("the unused one: %v", err)
	}
}
