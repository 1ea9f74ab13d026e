package machine

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobs runs the long work of Machines, one job each, a bounded number at once.
// A reconciler starts a job, looks at its progress, and takes its result once
// that is recorded. Each change wakes the Machine through wakeups. Jobs live in
// memory only: after a restart the work is simply begun again.
type jobs struct {
	ctx     context.Context
	stop    context.CancelFunc
	slots   chan struct{}
	clock   clock.PassiveClock
	wakeups chan event.GenericEvent
	group   sync.WaitGroup
	// spawn runs a job beside its caller. Default: a goroutine.
	spawn func(func())

	mu   sync.Mutex
	byID map[types.NamespacedName]*job
}

// job is one run. Its fields are guarded by jobs.mu.
type job struct {
	snapshot
	cancel context.CancelFunc
}

// snapshot is a job as a reconciler sees it.
type snapshot struct {
	// id tells this run from one with other inputs.
	id     string
	began  time.Time
	step   string
	done   bool
	result error
	// found is what a job brought back.
	found []string
	// notBefore is when a failed job may be followed by another.
	notBefore time.Time
	// recorded says that the failure was counted, answered that the ladder was asked
	// what to do about it, shown that people can see it.
	recorded, answered, shown bool
}

func newJobs(size int, c clock.PassiveClock, spawn func(func())) *jobs {
	ctx, stop := context.WithCancel(context.Background())
	j := &jobs{
		ctx: ctx, stop: stop, clock: c,
		slots:   make(chan struct{}, size),
		wakeups: make(chan event.GenericEvent, 1024),
		byID:    map[types.NamespacedName]*job{},
		spawn:   spawn,
	}
	if j.spawn == nil {
		j.spawn = j.group.Go
	}
	return j
}

// Start is the manager's runnable: it ends every job when the manager ends.
func (j *jobs) Start(ctx context.Context) error {
	<-ctx.Done()
	j.stop()
	j.group.Wait()
	return nil
}

// NeedLeaderElection makes jobs end with the leadership.
func (j *jobs) NeedLeaderElection() bool { return true }

// begin runs work under the id unless a job of this key is running already.
// Another, finished job of the key is forgotten.
func (j *jobs) begin(key types.NamespacedName, id string, work func(ctx context.Context, say func(step string)) error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if old, ok := j.byID[key]; ok && !old.done {
		return
	}
	ctx, cancel := context.WithCancel(j.ctx)
	current := &job{snapshot: snapshot{id: id, began: j.clock.Now(), step: stepQueued}, cancel: cancel}
	j.byID[key] = current
	j.spawn(func() {
		defer cancel()
		err := j.run(ctx, func() error {
			return work(ctx, func(step string) { j.say(key, current, step) })
		})
		j.finish(key, current, err)
	})
}

func (j *jobs) run(ctx context.Context, work func() error) error {
	select {
	case j.slots <- struct{}{}:
		defer func() { <-j.slots }()
		return work()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *jobs) say(key types.NamespacedName, current *job, step string) {
	j.mu.Lock()
	current.step = step
	j.mu.Unlock()
	j.wake(key)
}

func (j *jobs) finish(key types.NamespacedName, current *job, err error) {
	j.mu.Lock()
	current.done, current.result = true, err
	j.mu.Unlock()
	j.wake(key)
}

// wake must not block a job for ever on a manager that is gone.
func (j *jobs) wake(key types.NamespacedName) {
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case j.wakeups <- event.GenericEvent{Object: m}:
	case <-j.ctx.Done():
	}
}

// look returns the Machine's job, running or finished.
func (j *jobs) look(key types.NamespacedName) (snapshot, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	current, ok := j.byID[key]
	if !ok {
		return snapshot{}, false
	}
	return current.snapshot, true
}

// setFound keeps what the Machine's running job brings back.
func (j *jobs) setFound(key types.NamespacedName, found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if current, ok := j.byID[key]; ok && !current.done {
		current.found = found
	}
}

// setRecorded notes that a failure was counted and when to try again.
func (j *jobs) setRecorded(key types.NamespacedName, notBefore time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if current, ok := j.byID[key]; ok && current.done {
		current.recorded, current.notBefore = true, notBefore
	}
}

// setAnswered notes that what a failure asks for was done.
func (j *jobs) setAnswered(key types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if current, ok := j.byID[key]; ok && current.done {
		current.answered = true
	}
}

// setShown notes that a failure is in the Machine's status.
func (j *jobs) setShown(key types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if current, ok := j.byID[key]; ok && current.done {
		current.shown = true
	}
}

// cancel asks a running job to end; its end wakes the Machine.
func (j *jobs) cancel(key types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if current, ok := j.byID[key]; ok {
		current.cancel()
	}
}

// forget drops a finished job.
func (j *jobs) forget(key types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if current, ok := j.byID[key]; ok && current.done {
		delete(j.byID, key)
	}
}

// after asks to come back at an instant, or now when it has passed.
func after(now, then time.Time) ctrl.Result {
	wait := then.Sub(now)
	if wait <= 0 {
		wait = time.Millisecond
	}
	return ctrl.Result{RequeueAfter: wait}
}
