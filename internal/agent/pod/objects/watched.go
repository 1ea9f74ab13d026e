package objects

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/kube"
)

const (
	// graphLag is how long the Node authorizer may take to learn of a Pod's reference:
	// its graph is fed by a watch of its own. A refusal within it is asked again.
	graphLag = 2 * time.Second
	// lagStep is the first pause between such questions; it doubles.
	lagStep = 25 * time.Millisecond
)

// watched is one object and what is known of it. It is the store of its reflector,
// which tells it of one object at most.
type watched struct {
	ref    Ref
	notify func()

	mu sync.Mutex
	// news is closed and replaced with each change of what follows.
	news   chan struct{}
	listed bool
	// object is nil when there is none.
	object metav1.Object
	// err is why it could not be listed, until it is listed first.
	err error
	// told: somebody was given an error instead of the object.
	told bool
}

func newWatched(r Ref, notify func()) *watched {
	return &watched{ref: r, notify: notify, news: make(chan struct{})}
}

// known is what is known at a moment.
type known struct {
	object metav1.Object
	listed bool
	err    error
	// news is closed when more is known.
	news <-chan struct{}
}

func (w *watched) look() known {
	w.mu.Lock()
	defer w.mu.Unlock()
	return known{w.object, w.listed, w.err, w.news}
}

func (w *watched) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = true
}

// set takes what the API server says, and tells Pods of what they don't know.
func (w *watched) set(o metav1.Object) {
	w.mu.Lock()
	same := w.listed && sameVersion(w.object, o)
	first := !w.listed && !w.told
	w.object, w.listed, w.err = o, true, nil
	close(w.news)
	w.news = make(chan struct{})
	w.mu.Unlock()
	if !same && !first {
		w.notify()
	}
}

func (w *watched) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listed {
		return
	}
	w.err = err
	close(w.news)
	w.news = make(chan struct{})
}

func sameVersion(a, b metav1.Object) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion() && a.GetResourceVersion() != ""
}

// Add, Update, Delete, Replace and Resync make it a store of a reflector.
func (w *watched) Add(o any) error {
	if object, ok := o.(metav1.Object); ok && object.GetName() == w.ref.Name {
		object.SetManagedFields(nil)
		w.set(object)
	}
	return nil
}

// Update is as Add.
func (w *watched) Update(o any) error { return w.Add(o) }

// Delete forgets the object.
func (w *watched) Delete(any) error {
	w.set(nil)
	return nil
}

// Replace takes a list of one object or none.
func (w *watched) Replace(list []any, _ string) error {
	for _, o := range list {
		if object, ok := o.(metav1.Object); ok && object.GetName() == w.ref.Name {
			return w.Add(o)
		}
	}
	return w.Delete(nil)
}

// Resync has nothing to do.
func (w *watched) Resync() error { return nil }

// source lists and watches one object for its reflector.
type source struct {
	client kube.Client
	clock  clock.Clock
	w      *watched
}

func (s source) options(o metav1.ListOptions) metav1.ListOptions {
	o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.w.ref.Name).String()
	return o
}

// List asks again for a moment when it is refused, and notes what came out.
func (s source) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	deadline := s.clock.Now().Add(graphLag)
	for pause := lagStep; ; pause *= 2 {
		list, err := s.list(ctx, s.options(o))
		if err == nil {
			return list, nil
		}
		if !apierrors.IsForbidden(err) || s.clock.Now().Add(pause).After(deadline) {
			s.w.failed(err)
			return nil, err
		}
		select {
		case <-s.clock.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s source) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if s.w.ref.Kind == Secret {
		return s.client.Secrets(s.w.ref.Namespace).List(ctx, o)
	}
	return s.client.ConfigMaps(s.w.ref.Namespace).List(ctx, o)
}

func (s source) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if s.w.ref.Kind == Secret {
		return s.client.Secrets(s.w.ref.Namespace).Watch(ctx, s.options(o))
	}
	return s.client.ConfigMaps(s.w.ref.Namespace).Watch(ctx, s.options(o))
}

// List is for callers without a context, of which there are none.
func (s source) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch is as List.
func (s source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// IsWatchListSemanticsUnSupported keeps the reflector to list and watch: for one
// object a stream of initial events saves nothing, and a list says at once whether
// there is one.
func (source) IsWatchListSemanticsUnSupported() bool { return true }

// example is an empty object of the kind, for the reflector.
func (k Kind) example() runtime.Object {
	if k == Secret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}
