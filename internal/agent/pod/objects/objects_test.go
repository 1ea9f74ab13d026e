package objects

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/kubetest"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("waited %s for %s", patience, what)
	}
}

func quiet(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		t.Errorf("%s", what)
	default:
	}
}

// open makes a store over a fake API server and closes it with the test, which
// fails when a goroutine stays.
func open(t *testing.T, c *fake.Clientset) *Store {
	t.Helper()
	return openAt(t, c, nil)
}

func openAt(t *testing.T, c *fake.Clientset, at clock.Clock) *Store {
	t.Helper()
	s := New(kubetest.Client(c), at, nil)
	t.Cleanup(func() {
		done := make(chan struct{})
		go func() { s.Close(); close(done) }()
		await(t, "all watches to end", done)
	})
	return s
}

func secret(name, value, version string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "build", Name: name, UID: "1", ResourceVersion: version,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "somebody"}},
		},
		Data: map[string][]byte{"k": []byte(value)},
	}
}

func aSecret(name string) Ref { return Ref{Kind: Secret, Namespace: "build", Name: name} }

func TestHeldObjectIsReadAndItsChangesAreTold(t *testing.T) {
	client := fake.NewClientset(secret("s", "one", "1"))
	watching := watches(client)
	store := open(t, client)
	store.Hold("pod", []Ref{aSecret("s"), {Kind: ConfigMap, Namespace: "build", Name: "m"}})
	changed := store.Changed("pod")

	got, err := store.Secret(t.Context(), "build", "s")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("one", string(got.Data["k"])); d != "" || got.ManagedFields != nil {
		t.Errorf("(-want +got):\n%s, managed fields %v", d, got.ManagedFields)
	}
	if _, err := store.ConfigMap(t.Context(), "build", "m"); !apierrors.IsNotFound(err) {
		t.Errorf("a ConfigMap that is not there gives %v", err)
	}
	quiet(t, "the first list counts as a change", changed)
	<-watching
	<-watching

	if _, err := client.CoreV1().Secrets("build").Update(t.Context(), secret("s", "two", "2"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the change to be told", changed)
	if got, err = store.Secret(t.Context(), "build", "s"); err != nil || string(got.Data["k"]) != "two" {
		t.Errorf("after the change: %v, %v", got, err)
	}

	changed = store.Changed("pod")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "build", Name: "m"}}
	if _, err := client.CoreV1().ConfigMaps("build").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the ConfigMap to appear", changed)
	if _, err := store.ConfigMap(t.Context(), "build", "m"); err != nil {
		t.Errorf("a ConfigMap that appeared gives %v", err)
	}

	changed = store.Changed("pod")
	if err := client.CoreV1().Secrets("build").Delete(t.Context(), "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the deletion to be told", changed)
	if _, err := store.Secret(t.Context(), "build", "s"); !apierrors.IsNotFound(err) {
		t.Errorf("a deleted Secret gives %v", err)
	}
}

// watches tells of each watch that begins.
func watches(client *fake.Clientset) <-chan string {
	begun := make(chan string, 100)
	client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		begun <- a.(clienttesting.WatchAction).GetWatchRestrictions().Fields.String()
		return true, w, err
	})
	return begun
}

func TestOneObjectIsWatchedByItsNameAndOnceForAllPods(t *testing.T) {
	client := fake.NewClientset(secret("s", "one", "1"), secret("other", "x", "1"))
	begun := watches(client)
	store := open(t, client)
	store.Hold("a", []Ref{aSecret("s")})
	store.Hold("b", []Ref{aSecret("s")})
	store.Hold("a", []Ref{aSecret("s")})
	if d := cmp.Diff("metadata.name=s", <-begun); d != "" {
		t.Errorf("field selector (-want +got):\n%s", d)
	}
	store.Drop("a")
	if _, err := store.Secret(t.Context(), "build", "s"); err != nil {
		t.Errorf("the last of two Pods lost the object: %v", err)
	}
	store.Drop("b")
	store.Drop("never held")
	if _, err := store.Secret(t.Context(), "build", "s"); err == nil {
		t.Error("an object is there after its last Pod")
	}
	if store.Changed("b") != nil {
		t.Error("a Pod that is gone is still told of changes")
	}
	ended := make(chan struct{})
	go func() { store.running.Wait(); close(ended) }()
	await(t, "the watch to end with its last Pod", ended)
	if len(begun) != 0 {
		t.Errorf("%d more watches than one began", len(begun))
	}
	lists := 0
	for _, a := range client.Actions() {
		if l, ok := a.(clienttesting.ListAction); ok && a.GetVerb() == "list" {
			lists++
			if d := cmp.Diff("metadata.name=s", l.GetListRestrictions().Fields.String()); d != "" {
				t.Errorf("field selector of a list (-want +got):\n%s", d)
			}
		}
	}
	if lists != 1 {
		t.Errorf("%d lists, want 1", lists)
	}
}

func TestHoldAgainReplacesWhatIsHeld(t *testing.T) {
	store := open(t, fake.NewClientset(secret("s", "1", "1"), secret("u", "2", "1")))
	store.Hold("a", []Ref{aSecret("s")})
	store.Hold("a", []Ref{aSecret("u")})
	if _, err := store.Secret(t.Context(), "build", "u"); err != nil {
		t.Error(err)
	}
	if _, err := store.Secret(t.Context(), "build", "s"); err == nil {
		t.Error("what a Pod refers to no longer is still held")
	}
}

// refuse makes the first lists fail with what a Node authorizer says.
func refuse(client *fake.Clientset, times int64) *atomic.Int64 {
	var asked atomic.Int64
	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if asked.Add(1) <= times {
			return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "s", errors.New("no relationship found"))
		}
		return false, nil, nil
	})
	return &asked
}

// waitedClock goes on by what is waited for alone, at once: a test that is held up for seconds
// takes no time of it.
type waitedClock struct {
	clock.RealClock
	mu  sync.Mutex
	now time.Time
}

func (c *waitedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *waitedClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	over := make(chan time.Time, 1)
	over <- c.now
	return over
}

// NewTimer is for what must not end first.
func (c *waitedClock) NewTimer(time.Duration) clock.Timer { return c.RealClock.NewTimer(patience) }

func TestRefusalThatPassesIsNotSeen(t *testing.T) {
	client := fake.NewClientset(secret("s", "one", "1"))
	refuse(client, 2)
	store := openAt(t, client, &waitedClock{})
	store.Hold("a", []Ref{aSecret("s")})
	if _, err := store.Secret(t.Context(), "build", "s"); err != nil {
		t.Errorf("the authorizer knew the Pod after a moment, and yet: %v", err)
	}
}

func TestRefusalThatStaysIsTold(t *testing.T) {
	client := fake.NewClientset(secret("s", "one", "1"))
	asked := refuse(client, 1<<40)
	store := openAt(t, client, &waitedClock{})
	store.Hold("a", []Ref{aSecret("s")})
	changed := store.Changed("a")
	if _, err := store.Secret(t.Context(), "build", "s"); !apierrors.IsForbidden(err) {
		t.Fatalf("a forbidden Secret gives %v", err)
	}
	if n := asked.Load(); n < 3 || n > 20 {
		t.Errorf("asked %d times within %s", n, graphLag)
	}
	// Once it is allowed, who was told of the refusal is told of the change.
	asked.Store(1 << 40)
	await(t, "the end of the refusal to be told", changed)
}

func TestReadersOfAnObjectEndWithTheirContext(t *testing.T) {
	client := fake.NewClientset()
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-hung
		return true, nil, errors.New("too late")
	})
	store := New(kubetest.Client(client), nil, nil)
	defer store.end()
	store.Hold("a", []Ref{aSecret("s")})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the Pod is being deleted")
	cancel(why)
	if _, err := store.Secret(ctx, "build", "s"); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

func TestAnAPIServerThatIsSilentIsSaidSo(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	clock := testingclock.NewFakeClock(time.Now())
	store := New(kubetest.Client(client), clock, nil)
	defer store.end()
	store.Hold("a", []Ref{aSecret("s")})
	got := make(chan error, 1)
	go func() {
		_, err := store.Secret(t.Context(), "build", "s")
		got <- err
	}()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); clock.Step(time.Second) {
		select {
		case err := <-got:
			if err == nil || apierrors.IsNotFound(err) {
				t.Errorf("got %v", err)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Fatalf("a reader still waits after %s", patience)
}

// A watch that is begun anew lists what is known already.
func TestWhatIsKnownIsNoNews(t *testing.T) {
	told := 0
	w := newWatched(aSecret("s"), func() { told++ })
	for _, step := range []struct {
		name string
		does func() error
		want int
	}{
		{"the first list", func() error { return w.Replace([]any{secret("s", "one", "1")}, "1") }, 0},
		{"the same list", func() error { return w.Replace([]any{secret("s", "one", "1")}, "2") }, 0},
		{"a change", func() error { return w.Update(secret("s", "two", "2")) }, 1},
		{"the same change", func() error { return w.Update(secret("s", "two", "2")) }, 1},
		{"the end", func() error { return w.Delete(nil) }, 2},
		{"a list of nothing", func() error { return w.Replace(nil, "3") }, 2},
	} {
		if err := step.does(); err != nil || told != step.want {
			t.Errorf("%s: told %d times, want %d, %v", step.name, told, step.want, err)
		}
	}
}
