package logs

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/utils/clock"
)

const (
	// lookInterval is how often a log is looked at when nobody says that it changed, and
	// how often it is asked whether its writer has ended: a kubelet's.
	lookInterval = time.Second
	// A file that cannot be watched is looked at more often: it is missing for a moment
	// when a log is rotated.
	minLook = 2 * time.Millisecond
	maxLook = 100 * time.Millisecond
)

// waker says when to look at a log again.
type waker struct {
	path  string
	clock clock.WithTicker
	// events is nil where the system has no more watches to give: then we look often.
	events  *fsnotify.Watcher
	watched bool
	look    time.Duration
	asked   time.Time
}

func newWaker(path string, c clock.WithTicker) *waker {
	w := &waker{path: path, clock: c, look: minLook}
	if events, err := fsnotify.NewWatcher(); err == nil {
		w.events = events
	}
	return w
}

func (w *waker) close() {
	if w.events != nil {
		_ = w.events.Close()
	}
}

// due reports whether it is time to ask if the writer has ended.
func (w *waker) due() bool {
	if !w.asked.IsZero() && w.clock.Since(w.asked) < lookInterval {
		return false
	}
	w.asked = w.clock.Now()
	return true
}

// wait returns when the log may have changed, or with ctx.
func (w *waker) wait(ctx context.Context) error {
	if !w.watched && w.watch() {
		// It may have changed before it was watched.
		return nil
	}
	delay := lookInterval
	if !w.watched {
		delay = w.look
		w.look = min(2*w.look, maxLook)
	}
	timer := w.clock.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
	case e := <-w.notifications():
		if e.Has(fsnotify.Rename) || e.Has(fsnotify.Remove) {
			w.moved()
		}
	case <-w.failures(): //nolint:errcheck // the next look tells
	}
	return nil
}

// moved says that another file is under the path now, or will be.
func (w *waker) moved() {
	if w.watched {
		_ = w.events.Remove(w.path)
		w.watched = false
	}
}

func (w *waker) watch() bool {
	if w.events == nil || w.events.Add(w.path) != nil {
		return false
	}
	w.watched, w.look = true, minLook
	return true
}

func (w *waker) notifications() <-chan fsnotify.Event {
	if w.events == nil {
		return nil
	}
	return w.events.Events
}

func (w *waker) failures() <-chan error {
	if w.events == nil {
		return nil
	}
	return w.events.Errors
}
