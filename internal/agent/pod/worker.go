package pod

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/image"
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
	images      *image.Store
	slots       *slot.Gate
	journal     journal
	clock       clock.WithTicker
	log         *slog.Logger
	host        Host
	hostIP      string
	bootSession string
}

// errDeleted ends the life of a Pod's machine.
var errDeleted = errors.New("the Pod is being deleted")

// worker lives as long as its Pod object does.
type worker struct {
	parts
	uid    types.UID
	status *statusWriter
	frame  frame
	// endLife cancels life, which all steps before the deletion run under.
	life    context.Context
	endLife context.CancelCauseFunc

	mu  sync.Mutex
	pod *corev1.Pod
	// gone: the Pod object is not there any more.
	gone bool

	// Only the worker's own goroutine touches what follows.
	rec entry
	ran bool
}

func newWorker(ctx context.Context, p parts, pod *corev1.Pod) *worker {
	w := &worker{parts: p, uid: pod.UID, pod: pod}
	w.log = p.log.With("pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID)
	w.status = newStatusWriter(p.client, p.clock, w.log, pod)
	w.life, w.endLife = context.WithCancelCause(ctx)
	w.frame = frame{HostIP: p.hostIP, StartTime: metav1.NewTime(p.clock.Now())}
	if pod.Status.StartTime != nil {
		w.frame.StartTime = *pod.Status.StartTime
	}
	w.ran = hasRun(pod)
	if pod.DeletionTimestamp != nil {
		w.endLife(errDeleted)
	}
	return w
}

// hasRun reports whether the API shows that a container of the Pod ran.
func hasRun(p *corev1.Pod) bool {
	for _, s := range p.Status.ContainerStatuses {
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
	w.mu.Unlock()
	if p.DeletionTimestamp != nil {
		w.endLife(errDeleted)
	}
}

// Gone tells the worker that its Pod object is not there any more.
func (w *worker) Gone() {
	w.mu.Lock()
	w.gone = true
	w.mu.Unlock()
	w.status.Gone()
	w.endLife(errDeleted)
}

func (w *worker) current() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod
}

func (w *worker) isGone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// Run takes the Pod to its end, unless ctx ends before: then machines are left as
// they are, for the next agent.
func (w *worker) Run(ctx context.Context) {
	writing, stop := context.WithCancel(ctx)
	defer stop()
	go w.status.Run(writing)

	ended := w.live(w.life)
	if ctx.Err() != nil {
		return
	}
	if err := w.clear(ctx, ended); err != nil {
		return
	}
	select {
	case <-w.life.Done():
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		w.finish(ctx)
	}
}

// live is a Pod from admission to the end of its last machine, which it returns;
// nil when the Pod is deleted before, or needs nothing.
func (w *worker) live(ctx context.Context) *view {
	p := w.current()
	if ctx.Err() != nil || hasEnded(p) {
		return nil
	}
	if fields := Unsupported(p); len(fields) > 0 {
		return w.refuse(p, fields)
	}
	m, why, err := w.find(ctx, p)
	if err != nil {
		return nil
	}
	if m == moveBegin {
		w.noteToken(p)
	}
	return w.cycle(ctx, m, why)
}

// refuse fails the Pod for good; there is nothing to stop.
func (w *worker) refuse(p *corev1.Pod, fields []string) *view {
	message := "This node runs a Pod as one macOS VM and cannot honour: " + strings.Join(fields, ", ")
	w.log.Info("Pod refused", "fields", fields)
	w.events.Event(p, corev1.EventTypeWarning, reasonUnsupported, message)
	return &view{Refused: &refusal{Reason: reasonUnsupported, Message: message}}
}

func (w *worker) noteToken(p *corev1.Pod) {
	for _, v := range p.Spec.Volumes {
		if isTokenVolume(v) {
			w.events.Event(p, corev1.EventTypeNormal, "TokenNotMounted", "The service account's token is not mounted in the VM")
			return
		}
	}
}

// cycle runs machine after machine until the restart policy says stop.
func (w *worker) cycle(ctx context.Context, m move, why string) *view {
	for {
		var e end
		var err error
		switch m {
		case moveBegin:
			e, err = w.attempt(ctx)
		case moveAdopt:
			e, err = w.adopt(ctx)
		case moveRead:
			e, err = w.readEnd(why)
		case moveLost:
			e = lost(w.rec, why, w.clock.Now())
		case moveEnded:
			e = *w.rec.Last
		}
		if err != nil {
			return nil // deleted, or the agent stops
		}
		w.remember(e, m)
		if !e.Limited && !restarts(w.current().Spec.RestartPolicy, e) {
			return &view{Ended: &e, Restarts: w.rec.Restarts, Machine: e.Machine, ImageID: w.rec.ImageID, Ran: true}
		}
		if !w.prepareRestart(ctx, e) {
			return nil
		}
		m = moveBegin
	}
}

func restarts(policy corev1.RestartPolicy, e end) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return e.Code != 0
	}
	return true
}

// remember writes an end down before anything is done about it.
func (w *worker) remember(e end, m move) {
	if m == moveEnded {
		return
	}
	w.log.Info("VM ended", "machine", e.Machine, "code", e.Code, "reason", e.Reason, "message", e.Message)
	w.rec.Crashes++
	if !e.Started.IsZero() && e.Finished.Sub(e.Started) >= backOffReset {
		w.rec.Crashes = 1
	}
	w.rec.Step, w.rec.Last = stepEnded, &e
	w.ran = w.ran || !e.Limited
	w.save()
}

// prepareRestart deletes the machine that ended and waits as long as the back-off
// asks; false when the Pod is deleted meanwhile.
func (w *worker) prepareRestart(ctx context.Context, e end) bool {
	delay, reason := restartDelay(w.rec.Crashes), "CrashLoopBackOff"
	if e.Limited {
		delay, reason = pullDelay(w.rec.Crashes), limitReason(e)
	}
	if delay > 0 {
		w.waiting(reason, "back-off "+delay.String()+" restarting the VM")
		w.event(corev1.EventTypeWarning, "BackOff", "Back-off restarting the VM: "+firstOf(e.Message, e.Reason))
	}
	if err := w.remove(ctx, w.rec.machine(), w.rec.Attempt); err != nil {
		return false
	}
	if left := delay - w.clock.Since(e.Finished); left > 0 && !wait(ctx, w.clock, left) {
		return false
	}
	w.rec.Attempt++
	if !e.Limited {
		w.rec.Restarts++
	}
	return ctx.Err() == nil
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

func (w *worker) publish(v view) {
	w.status.Set(render(w.current(), w.frame, v, w.status.conditions(), w.clock.Now()))
}

func (w *worker) waiting(reason, message string) {
	w.publish(view{
		Waiting:  &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		Last:     w.rec.Last,
		Restarts: w.rec.Restarts,
		ImageID:  w.rec.ImageID,
		Ran:      w.ran,
	})
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
