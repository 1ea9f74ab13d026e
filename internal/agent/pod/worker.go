package pod

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/slot"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// parts are what all workers of a host share.
type parts struct {
	client      kubernetes.Interface
	events      record.EventRecorder
	driver      vm.Driver
	runs        Runs
	guard       Guard
	settled     func()
	images      Images
	inputs      Inputs
	slots       *slot.Gate
	former      *formerMachines
	journal     journal
	clock       clock.WithTicker
	log         *slog.Logger
	host        Host
	hostIP      string
	bootSession string
}

// What ends the life of a Pod's machine, next to overError.
var (
	errDeleted = errors.New("the Pod is being deleted")
	errEnded   = errors.New("the Pod was ended by somebody else")
)

// worker lives as long as its Pod object does.
type worker struct {
	parts
	uid    types.UID
	status *statusWriter
	frame  frame
	// endLife cancels life, which all steps before the deletion run under. deleted is
	// closed when the object is being deleted, or is gone.
	life    context.Context
	endLife context.CancelCauseFunc
	deleted chan struct{}
	// beside is what goes on next to the worker's own steps, under life.
	beside sync.WaitGroup

	mu  sync.Mutex
	pod *corev1.Pod
	// changed is closed and replaced when pod or gone changes.
	changed chan struct{}
	// gone: the Pod object is not there any more.
	gone bool
	// dying is since when the Pod is being deleted, by this host's clock; zero: it is not.
	dying time.Time

	// shown is what was published last.
	showing sync.Mutex
	shown   *view

	// Only the worker's own goroutine touches what follows.
	rec entry
	// ran: a container of the Pod has run; began: the main one has.
	ran, began bool
	// traced: rec was made up, as the journal was gone.
	traced bool
	// given is what this attempt is given; nil: not made ready by this process.
	given *Prepared
	// toldMissing are the missing pull secrets that an event named, after the attempt.
	toldMissing string
	// shim is the one that is waited for.
	shim struct {
		dir  string
		gone <-chan struct{}
	}
}

func newWorker(ctx context.Context, p parts, pod *corev1.Pod) *worker {
	w := &worker{parts: p, uid: pod.UID, pod: pod, changed: make(chan struct{}), deleted: make(chan struct{})}
	w.log = p.log.With("pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID)
	w.status = newStatusWriter(p.client, p.clock, w.log, pod)
	w.life, w.endLife = context.WithCancelCause(ctx)
	w.frame = frame{HostIP: p.hostIP, StartTime: metav1.NewTime(p.clock.Now())}
	if pod.Status.StartTime != nil {
		w.frame.StartTime = *pod.Status.StartTime
	}
	w.began = hasRun(pod.Status.ContainerStatuses)
	w.ran = w.began || hasRun(pod.Status.InitContainerStatuses)
	if pod.DeletionTimestamp != nil {
		w.dying = dyingSince(pod, p.clock.Now())
		w.end(errDeleted)
	}
	return w
}

// hasRun reports whether the API shows that one of the containers ran.
func hasRun(list []corev1.ContainerStatus) bool {
	for _, s := range list {
		if s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil {
			return true
		}
	}
	return false
}

func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Update tells the worker of a newer object of its Pod.
func (w *worker) Update(p *corev1.Pod) {
	w.mu.Lock()
	w.pod = p
	if p.DeletionTimestamp != nil && w.dying.IsZero() {
		w.dying = w.clock.Now()
	}
	w.tell()
	w.mu.Unlock()
	switch {
	case p.DeletionTimestamp != nil:
		w.end(errDeleted)
	case hasEnded(p):
		// Where the end is our own, life is over already.
		w.endLife(errEnded)
	}
	// A readiness gate or the generation may have changed.
	w.show(nil)
}

// Gone tells the worker that its Pod object is not there any more.
func (w *worker) Gone() {
	w.mu.Lock()
	w.gone = true
	w.tell()
	w.mu.Unlock()
	w.status.Gone()
	w.end(errDeleted)
}

// end is for a deletion, which comes once, and may come again with a shorter grace.
func (w *worker) end(cause error) {
	w.endLife(cause)
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.deleted:
	default:
		close(w.deleted)
	}
}

func (w *worker) tell() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *worker) current() *corev1.Pod {
	p, _ := w.observe()
	return p
}

// observe returns the Pod, and what is closed once there is a newer one.
func (w *worker) observe() (*corev1.Pod, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod, w.changed
}

func (w *worker) isGone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// Run takes the Pod to its end, unless ctx ends before: then machines are left as
// they are, for the next agent.
func (w *worker) Run(ctx context.Context) {
	defer w.beside.Wait()
	writing, stop := context.WithCancel(ctx)
	defer stop()
	w.beside.Go(func() { w.status.Run(writing) })

	ended := w.live(w.life)
	if ctx.Err() != nil {
		return
	}
	// Whatever still runs beside ends with life.
	w.endLife(nil)
	if err := w.clear(ctx, ended); err != nil {
		return
	}
	select {
	case <-w.deleted:
		w.finish(ctx)
	case <-ctx.Done():
	}
}

// save writes the journal. When the disk fails it is tried until it works or the
// Pod's life ends: nothing may happen that is not written down.
func (w *worker) save() {
	for delay := time.Second; ; delay = min(2*delay, time.Minute) {
		err := w.journal.save(w.rec)
		if err == nil {
			return
		}
		w.log.Error("the journal cannot be written", "err", err)
		if !wait(w.life, w.clock, delay) {
			return
		}
	}
}

// show publishes a view; nil: the last one again, for a Pod that changed.
func (w *worker) show(v *view) {
	w.showing.Lock()
	defer w.showing.Unlock()
	if v == nil {
		v = w.shown
	}
	if w.shown = v; v != nil {
		w.status.Set(render(w.current(), w.frame, *v, w.status.conditions(), w.clock.Now()))
	}
}

// showNow publishes what the record says of an attempt that goes on.
func (w *worker) showNow() {
	waiting := corev1.ContainerStateWaiting{Reason: w.patient()}
	if w.rec.Step == stepRunning {
		waiting.Message = "the guest boots; its agent has not answered yet"
	}
	v := viewOf(w.current(), w.rec, w.began, waiting)
	w.show(&v)
}

// waiting publishes why the container whose turn it is does not run.
func (w *worker) waiting(reason, message string) {
	v := viewOf(w.current(), w.rec, w.began, corev1.ContainerStateWaiting{Reason: reason, Message: message})
	w.show(&v)
}

// patient is the reason of a container that waits for nothing special.
func (w *worker) patient() string {
	if len(w.current().Spec.InitContainers) > 0 {
		return reasonInitializing
	}
	return "ContainerCreating"
}

func (w *worker) event(kind, reason, message string) {
	w.events.Event(w.current(), kind, reason, message)
}

func firstOf(words ...string) string {
	for _, s := range words {
		if s != "" {
			return s
		}
	}
	return ""
}
