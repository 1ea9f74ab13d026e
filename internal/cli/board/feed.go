package board

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// firstRead bounds how long it takes to read a fleet the first time.
const firstRead = time.Minute

// Feed keeps what a board shows true by watches.
type Feed struct {
	cache     cache.Cache
	direct    client.Client
	namespace string
	kinds     []snapshot.Kind
	missing   []snapshot.Missing
	changed   chan struct{}
}

// NewFeed finds out what may be read. With a namespace it is of that one. The watches fill
// the cache.
func NewFeed(ctx context.Context, c client.Client, watches cache.Cache, namespace string) (*Feed, error) {
	s, err := snapshot.Load(ctx, one{c}, namespace, Kinds()...)
	if err != nil {
		return nil, err
	}
	f := &Feed{cache: watches, direct: c, namespace: namespace, missing: s.Missing, changed: make(chan struct{}, 1)}
	f.kinds = slices.DeleteFunc(Kinds(), func(kind snapshot.Kind) bool { return s.Lacks(kind) != "" })
	return f, nil
}

// one reads one object of a list: enough to know that it may be read.
type one struct{ client.Reader }

func (o one) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return o.Reader.List(ctx, list, append(options, client.Limit(1))...)
}

// Start watches until ctx ends; it returns once all that may be read was read.
func (f *Feed) Start(ctx context.Context) error {
	for _, kind := range f.kinds {
		if err := f.watch(ctx, kind); err != nil {
			return fmt.Errorf("watching %s: %w", kind, err)
		}
	}
	go func() { _ = f.cache.Start(ctx) }() // ends with ctx, and fails only where it is started twice
	bounded, cancel := context.WithTimeout(ctx, firstRead)
	defer cancel()
	if !f.cache.WaitForCacheSync(bounded) {
		return errors.Join(fmt.Errorf("the cluster was not read within %s", firstRead), f.Trouble(ctx), ctx.Err())
	}
	return nil
}

func (f *Feed) watch(ctx context.Context, of snapshot.Kind) error {
	kind, err := f.direct.GroupVersionKindFor(of.List())
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	informer, err := f.cache.GetInformerForKind(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil || of.Restless() {
		return err
	}
	tell := func(any) { f.tell() }
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(any, any) { f.tell() }, DeleteFunc: tell,
	})
	return err
}

// tell says that something changed; that is one thing however often it is said.
func (f *Feed) tell() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Changed says when there is something new to look at.
func (f *Feed) Changed() <-chan struct{} { return f.changed }

// Trouble is why the snapshot may be old; nil: it is not. It asks the cluster: a watch whose
// server does not answer is begun again and again, and tells nobody.
func (f *Feed) Trouble(ctx context.Context) error {
	s, err := snapshot.Load(ctx, one{f.direct}, f.namespace, f.kinds...)
	if err != nil {
		return err
	}
	if len(s.Missing) > 0 {
		return fmt.Errorf("%s: %s", s.Missing[0].Kind, s.Missing[0].Why)
	}
	return nil
}

// Snapshot is the fleet as the watches have it.
func (f *Feed) Snapshot(ctx context.Context) (*snapshot.Snapshot, error) {
	s, err := snapshot.Load(ctx, f.cache, f.namespace, f.kinds...)
	if err != nil {
		return nil, err
	}
	s.Missing = f.missing
	return s, nil
}
