package stage

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Seen is one version of a Pod, and when it was seen.
type Seen struct {
	At  time.Time
	Pod *corev1.Pod
	// Gone: this is the last version, the object is deleted.
	Gone bool
}

// Recorder watches all Pods and keeps every version of each.
type Recorder struct {
	client kubernetes.Interface
	gone   func(*corev1.Pod)
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	seen   map[types.UID][]Seen
	broken []string
}

// Record begins to watch; Stop ends it. gone, unless nil, is called with the last
// version of each Pod whose object is not there any more.
func Record(ctx context.Context, client kubernetes.Interface, gone func(*corev1.Pod)) *Recorder {
	ctx, stop := context.WithCancel(ctx)
	if gone == nil {
		gone = func(*corev1.Pod) {}
	}
	r := &Recorder{client: client, gone: gone, stop: stop, done: make(chan struct{}), seen: map[types.UID][]Seen{}}
	go r.run(ctx)
	return r
}

// Stop ends the watch.
func (r *Recorder) Stop() {
	r.stop()
	<-r.done
}

// Broken are the rules that were broken so far, one line each.
func (r *Recorder) Broken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.broken...)
}

// Of returns all versions of a Pod, oldest first.
func (r *Recorder) Of(uid types.UID) []Seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Seen(nil), r.seen[uid]...)
}

// Forget drops what is kept of Pods that are gone, for runs that last.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, all := range r.seen {
		if all[len(all)-1].Gone {
			delete(r.seen, uid)
		}
	}
}

// run lists and watches until ctx ends. A watch that breaks goes on where it ended.
func (r *Recorder) run(ctx context.Context) {
	defer close(r.done)
	version := ""
	for ctx.Err() == nil {
		if version == "" {
			list, err := r.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			if err != nil {
				pause(ctx, poll)
				continue
			}
			for i := range list.Items {
				r.note(&list.Items[i], false)
			}
			version = list.ResourceVersion
		}
		version = r.follow(ctx, version)
	}
}

// follow returns the version to go on from, empty when a new list is needed.
func (r *Recorder) follow(ctx context.Context, version string) string {
	w, err := r.client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err != nil {
		pause(ctx, poll)
		return version
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		p, ok := e.Object.(*corev1.Pod)
		if !ok {
			return ""
		}
		version = p.ResourceVersion
		if e.Type == watch.Bookmark {
			continue
		}
		r.note(p, e.Type == watch.Deleted)
		if e.Type == watch.Deleted {
			r.gone(p)
		}
	}
	return version
}

func (r *Recorder) note(p *corev1.Pod, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.seen[p.UID]
	if len(all) > 0 && all[len(all)-1].Pod.ResourceVersion == p.ResourceVersion {
		return
	}
	var before *corev1.Pod
	if len(all) > 0 {
		before = all[len(all)-1].Pod
	}
	for _, rule := range Regressions(before, p) {
		r.broken = append(r.broken, fmt.Sprintf("Pod %s/%s (%s): %s", p.Namespace, p.Name, p.UID, rule))
	}
	r.seen[p.UID] = append(all, Seen{At: time.Now(), Pod: p, Gone: gone})
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
