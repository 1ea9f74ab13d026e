package snapshot

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AwaitChange returns once something of the kinds has changed since s was read, or when it
// can no longer be told whether it has. It fails when ctx ends.
func (s *Snapshot) AwaitChange(ctx context.Context, c client.WithWatch, namespace string, kinds ...Kind) error {
	watching, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	changed := make(chan struct{}, len(kinds))
	for _, kind := range kinds {
		version, read := s.versions[kind]
		if !read || kind.Restless() {
			continue // what may not be read may not be watched
		}
		l := kind.list()
		options := append([]client.ListOption{&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}}}, l.options...)
		if kind.namespaced() {
			options = append(options, client.InNamespace(namespace))
		}
		watcher, err := c.Watch(watching, l.into, options...)
		if err != nil {
			return nil //nolint:nilerr // whoever asks reads anew, and is told what is wrong
		}
		all.Go(func() { awaitOne(watching, watcher, changed) })
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		return nil
	}
}

// awaitOne tells of the first change, or of the end of the watch.
func awaitOne(ctx context.Context, watcher watch.Interface, changed chan<- struct{}) {
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-watcher.ResultChan():
			if !open || event.Type != watch.Bookmark {
				changed <- struct{}{}
				return
			}
		}
	}
}
