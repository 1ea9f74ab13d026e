package objects

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/kube"
)

// firstList bounds how long a reader waits for an object that was never listed.
const firstList = 10 * time.Second

// Store has the objects of the Pods it holds them for. Its methods may be called
// at the same time.
type Store struct {
	client kube.Client
	clock  clock.Clock
	log    *slog.Logger
	// life ends with Close; reflectors run under it.
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	pods  map[types.UID]*holder
	items map[Ref]*item

	tokens tokens
}

// holder is one Pod.
type holder struct {
	refs    map[Ref]bool
	changed chan struct{}
}

// item is one object and how many Pods refer to it.
type item struct {
	*watched
	holders map[types.UID]bool
	stop    context.CancelFunc
}

// New returns a store that holds nothing yet. A nil clock is the real one, a nil
// log says nothing.
func New(client kube.Client, c clock.Clock, log *slog.Logger) *Store {
	if c == nil {
		c = clock.RealClock{}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Store{client: client, clock: c, log: log, pods: map[types.UID]*holder{}, items: map[Ref]*item{}}
	s.life, s.end = context.WithCancel(context.Background())
	s.tokens.cached = map[tokenKey]token{}
	return s
}

// Close ends all watches and returns when they have ended.
func (s *Store) Close() {
	s.end()
	s.running.Wait()
}

// Hold watches the objects that a Pod refers to, until Drop. Held again, refs
// replace those before.
func (s *Store) Hold(uid types.UID, refs []Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.pods[uid]
	if h == nil {
		h = &holder{changed: make(chan struct{})}
		s.pods[uid] = h
	}
	before := h.refs
	h.refs = make(map[Ref]bool, len(refs))
	for _, r := range refs {
		h.refs[r] = true
		s.retain(r, uid)
	}
	for r := range before {
		if !h.refs[r] {
			s.release(r, uid)
		}
	}
}

// Drop forgets a Pod: objects that no other Pod refers to are watched no longer,
// and its tokens are gone.
func (s *Store) Drop(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.pods[uid]; h != nil {
		for r := range h.refs {
			s.release(r, uid)
		}
		delete(s.pods, uid)
	}
	s.tokens.drop(uid)
}

func (s *Store) retain(r Ref, uid types.UID) {
	it := s.items[r]
	if it == nil {
		it = s.start(r)
		s.items[r] = it
	}
	it.holders[uid] = true
}

func (s *Store) release(r Ref, uid types.UID) {
	it := s.items[r]
	delete(it.holders, uid)
	if len(it.holders) == 0 {
		it.stop()
		delete(s.items, r)
	}
}

func (s *Store) start(r Ref) *item {
	ctx, stop := context.WithCancel(s.life)
	it := &item{holders: map[types.UID]bool{}, stop: stop}
	it.watched = newWatched(r, func() { s.changed(it) })
	logger := logr.FromSlogHandler(s.log.With("object", r.String()).Handler())
	reflector := cache.NewReflectorWithOptions(source{s.client, s.clock, it.watched}, r.Kind.example(), it.watched,
		cache.ReflectorOptions{Name: r.String(), Logger: &logger})
	// What a reflector says of failures comes through its context.
	ctx = klog.NewContext(ctx, logger)
	s.running.Go(func() { reflector.RunWithContext(ctx) })
	return it
}

// changed wakes the Pods that refer to an object.
func (s *Store) changed(it *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range it.holders {
		h := s.pods[uid]
		close(h.changed)
		h.changed = make(chan struct{})
	}
	s.log.Info("an object of Pods changed", "object", it.ref.String(), "pods", len(it.holders))
}

// Changed is closed when an object of the Pod changes, appears or goes away. Ask
// for it before reading the objects. It is nil for a Pod that is not held.
func (s *Store) Changed(uid types.UID) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.pods[uid]; h != nil {
		return h.changed
	}
	return nil
}

// Secret returns a Secret that is held for some Pod, as it is now. It waits for the
// first answer of the API server. Errors that say NotFound or Forbidden match with
// k8s.io/apimachinery/pkg/api/errors. The object is shared: it must not be changed.
func (s *Store) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	o, err := s.get(ctx, Ref{Kind: Secret, Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return nil, fmt.Errorf("the API server gave a %T for Secret %s/%s", o, namespace, name)
	}
	return secret, nil
}

// ConfigMap is as Secret.
func (s *Store) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	o, err := s.get(ctx, Ref{Kind: ConfigMap, Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	m, ok := o.(*corev1.ConfigMap)
	if !ok {
		return nil, fmt.Errorf("the API server gave a %T for ConfigMap %s/%s", o, namespace, name)
	}
	return m, nil
}

func (s *Store) get(ctx context.Context, r Ref) (metav1.Object, error) {
	s.mu.Lock()
	it := s.items[r]
	s.mu.Unlock()
	if it == nil {
		return nil, fmt.Errorf("%s is held for no Pod", r)
	}
	late := s.clock.NewTimer(firstList)
	defer late.Stop()
	for {
		now := it.look()
		switch {
		case now.listed && now.object != nil:
			return now.object, nil
		case now.listed:
			return nil, apierrors.NewNotFound(r.resource(), r.Name)
		case apierrors.IsForbidden(now.err):
			it.tell()
			return nil, now.err
		}
		select {
		case <-now.news:
		case <-late.C():
			it.tell()
			return nil, notYet(r, now.err)
		case <-ctx.Done():
			it.tell()
			return nil, context.Cause(ctx)
		}
	}
}

func notYet(r Ref, err error) error {
	if err == nil {
		return fmt.Errorf("the API server did not answer about %s within %s", r, firstList)
	}
	return fmt.Errorf("listing %s: %w", r, err)
}

func (r Ref) resource() schema.GroupResource {
	if r.Kind == Secret {
		return schema.GroupResource{Resource: "secrets"}
	}
	return schema.GroupResource{Resource: "configmaps"}
}
