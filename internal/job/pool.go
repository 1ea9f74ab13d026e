// Package job runs long work beside reconciles: one job an object, a bounded number
// at once. A reconciler begins a job, looks at its progress, and takes its result
// once that is recorded. Its end wakes the object, and so does a step that lasts. Jobs
// live in memory only: after a restart the work is simply begun again.
package job

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Queued is the step of a job that waits for others.
const Queued = "queued"

// stepNews is how long a step takes that people are told of: one that is over sooner
// would be read by nobody, and each costs a visit and a write of the status.
const stepNews = time.Second

// Work is what a job does. It says which step it is at, and returns what it found, in the
// type that its beginner knows.
type Work func(ctx context.Context, say func(step string)) (found any, err error)

// Pool runs the jobs of one kind.
type Pool struct {
	ctx     context.Context
	stop    context.CancelFunc
	slots   chan struct{}
	clock   clock.PassiveClock
	wakeups chan event.GenericEvent
	group   sync.WaitGroup
	// spawn runs a job beside its caller, as given or as a goroutine.
	spawn, given func(func())

	mu   sync.Mutex
	byID map[types.NamespacedName]*job
}

// job is one run. Its fields are guarded by Pool.mu.
type job struct {
	Run
	cancel context.CancelFunc
	// stepLasts wakes the object once the present step is news.
	stepLasts *time.Timer
}

// Run is a job as a reconciler sees it.
type Run struct {
	// ID tells this run from one with other inputs.
	ID     string
	Began  time.Time
	Step   string
	Done   bool
	Result error
	// Found is what the job brought back.
	Found any
	// NotBefore is when a failed job may be followed by another.
	NotBefore time.Time
	// Attempt is the number that a failed job is to get where failures are counted; 0: it was
	// not tried to count it.
	Attempt int32
	// Recorded says that the failure was counted, Answered that recovery was asked what
	// to do about it, Shown that people can see it.
	Recorded, Answered, Shown bool
}

// NewPool makes a pool that runs so many jobs at once. Spawn runs a job beside its
// caller; nil: as a goroutine.
func NewPool(size int, c clock.PassiveClock, spawn func(func())) *Pool {
	return newPool(make(chan struct{}, size), c, spawn)
}

// Sharing makes another pool, whose jobs are counted with those of this one.
func (p *Pool) Sharing() *Pool { return newPool(p.slots, p.clock, p.given) }

func newPool(slots chan struct{}, c clock.PassiveClock, spawn func(func())) *Pool {
	ctx, stop := context.WithCancel(context.Background())
	p := &Pool{
		ctx: ctx, stop: stop, clock: c, slots: slots, given: spawn, spawn: spawn,
		wakeups: make(chan event.GenericEvent, 1024),
		byID:    map[types.NamespacedName]*job{},
	}
	if p.spawn == nil {
		p.spawn = p.group.Go
	}
	return p
}

// Wakeups are the objects whose jobs have news.
func (p *Pool) Wakeups() <-chan event.GenericEvent { return p.wakeups }

// Stop asks every job to end, now and later.
func (p *Pool) Stop() { p.stop() }

// Wait returns when no job runs.
func (p *Pool) Wait() { p.group.Wait() }

// Start is the manager's runnable: it ends every job when the manager ends, or its leadership.
func (p *Pool) Start(ctx context.Context) error {
	<-ctx.Done()
	p.Stop()
	p.Wait()
	return nil
}

// Begin runs work under the id unless a job of this key is running already.
// Another, finished job of the key is forgotten.
func (p *Pool) Begin(key types.NamespacedName, id string, work Work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.byID[key]; ok && !old.Done {
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	current := &job{Run: Run{ID: id, Began: p.clock.Now(), Step: Queued}, cancel: cancel}
	p.byID[key] = current
	p.spawn(func() {
		defer cancel()
		found, err := p.run(ctx, func() (any, error) {
			return work(ctx, func(step string) {
				p.change(current, func() { current.Step, current.stepLasts = step, time.AfterFunc(stepNews, func() { p.wake(key) }) })
			})
		})
		p.change(current, func() { current.Done, current.Found, current.Result = true, found, err })
		p.wake(key)
	})
}

func (p *Pool) run(ctx context.Context, work func() (any, error)) (any, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
		return work()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// change notes that a job has left the step it was at.
func (p *Pool) change(current *job, note func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if current.stepLasts != nil {
		current.stepLasts.Stop()
	}
	note()
}

// wake tells that the object's job has news. It must not block for ever on a manager
// that is gone.
func (p *Pool) wake(key types.NamespacedName) {
	woken := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case p.wakeups <- event.GenericEvent{Object: woken}:
	case <-p.ctx.Done():
	}
}

// Look returns the object's job, running or finished.
func (p *Pool) Look(key types.NamespacedName) (Run, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	current, ok := p.byID[key]
	if !ok {
		return Run{}, false
	}
	return current.Run, true
}

// Running reports that the object has a job that has not ended.
func (p *Pool) Running(key types.NamespacedName) bool {
	run, known := p.Look(key)
	return known && !run.Done
}

// Note changes what is noted of a finished job.
func (p *Pool) Note(key types.NamespacedName, note func(*Run)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if current, ok := p.byID[key]; ok && current.Done {
		note(&current.Run)
	}
}

// Cancel asks a running job to end; its end wakes the object.
func (p *Pool) Cancel(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if current, ok := p.byID[key]; ok {
		current.cancel()
	}
}

// Forget drops a finished job.
func (p *Pool) Forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if current, ok := p.byID[key]; ok && current.Done {
		delete(p.byID, key)
	}
}
