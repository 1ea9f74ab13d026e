package schedule

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/host"
)

// task is one pass of a reconciler, or one job: code that runs on a goroutine of
// its own, but only while the schedule lets it. It waits at the gate.
type task struct {
	manager *manager
	name    string
	// machine is the infra machine of a pass, or of its job.
	machine client.ObjectKey
	work    func()

	// turns are the calls that it may make before it waits; negative: all.
	turns   int
	started bool
	done    bool
	// waits is when it stopped at the gate.
	waits  time.Time
	resume chan struct{}
	yield  chan struct{}
}

func (s *sim) newTask(m *manager, name string, work func()) *task {
	return &task{manager: m, name: name, work: work, resume: make(chan struct{}), yield: make(chan struct{})}
}

// run lets a task make a number of calls, or all, and returns when it waits or
// has ended.
func (s *sim) run(t *task, turns int) {
	t.turns = turns
	before := s.current
	s.current = t
	if t.started {
		t.resume <- struct{}{}
	} else {
		t.started = true
		go s.body(t)
	}
	select {
	case <-t.yield:
	case <-time.After(stuck):
		panic(fmt.Sprintf("seed %d, harsh %t: %s does not come to the gate: does it wait for a lock that a task holds there? Then holdsLock has to know", s.seed, s.harsh, t.name))
	}
	s.current = before
	if !t.done {
		t.waits = s.clock.Now()
	}
}

// stuck is how long a task may compute: on a busy machine it takes moments.
const stuck = 5 * time.Minute

func (s *sim) body(t *task) {
	defer func() {
		if cause := recover(); cause != nil {
			s.violate("%s panicked: %v\n%s", t.name, cause, debug.Stack())
		}
		t.done = true
		t.yield <- struct{}{}
	}()
	t.work()
}

// operation is one call through the gate.
type operation struct {
	manager *manager
	verb    string
	kind    string
	key     client.ObjectKey
}

func (o operation) String() string {
	return fmt.Sprintf("%s: %s %s %s", o.manager.name, o.verb, o.kind, shortKey(o.key))
}

// effect reports that the call changes something outside the process.
func (o operation) effect() bool { return o.verb != "get" && o.verb != "list" && o.verb != "GET" }

// orders: a server is ordered.
func (o operation) orders() bool { return o.verb == "POST" && o.key.Name == "servers" }

// fault is what befalls a call.
type fault int

const (
	fine fault = iota
	failBefore
	failAfter
	dieBefore
	dieAfter
	// landLate: the caller gives up, and the effect comes up to two seconds later.
	landLate
)

func (f fault) String() string {
	return [...]string{"", " (fails before)", " (fails after)", " (dies before)", " (dies after)", " (lands late)"}[f]
}

// plan decides which calls fail.
type plan interface{ next(operation) fault }

// errDead is all that a process which is no more gets to see.
var errDead = errors.New("this process is dead")

// errLost is a connection that broke.
var errLost = errors.New("connection reset by peer")

// through brings one call of a manager to its target: it may wait there for its
// turn, and the plan may have it fail or be its manager's last.
func (s *sim) through(ctx context.Context, call operation, act func() error) error {
	s.pause()
	if call.manager.dead {
		return errDead
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	befalls := s.plan.next(call)
	if call.effect() || befalls != fine {
		s.note("  %s%s", call, befalls)
	}
	switch befalls {
	case failBefore:
		return failed(call)
	case dieBefore:
		call.manager.dead = true
		return errDead
	case landLate:
		most := lateMost
		if call.orders() {
			most = lateOrder
		}
		due := s.clock.Now().Add(s.between(0, most))
		s.late = append(s.late, landing{due, call.String(), func() { _ = act() }})
		return failed(call)
	}
	err := act()
	switch befalls {
	case failAfter:
		return failed(call)
	case dieAfter:
		call.manager.dead = true
		return errDead
	}
	if err != nil && call.effect() {
		s.note("    refused: %.90s", err)
	}
	return err
}

// pause gives the turn back when the task has used up its calls.
func (s *sim) pause() {
	t := s.current
	if t == nil || t.turns < 0 {
		return
	}
	if t.turns > 0 {
		t.turns--
		return
	}
	if holdsLock() {
		return
	}
	t.yield <- struct{}{}
	<-t.resume
	t.turns = max(t.turns, -1)
	if t.turns > 0 {
		t.turns--
	}
}

// holdsLock reports that the running task calls from where a reconciler holds a
// lock of its process: were it to wait there, another task would wait for the lock
// and never come to the gate. An order that nothing counts takes no lock, and does not wait
// there either.
func holdsLock() bool {
	pcs := make([]uintptr, 40)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if strings.HasSuffix(frame.Function, "order.(*Placer).Place") {
			return true
		}
	}
	return false
}

// failed is what a broken call looks like to its caller.
func failed(call operation) error {
	if call.kind == "vendor" || call.kind == "mac" {
		return errLost
	}
	return apierrors.NewTimeoutError("the server did not answer in time", 1)
}

// landing is an effect that is on its way.
type landing struct {
	due  time.Time
	what string
	act  func()
}

// lateMost bounds how late an effect may come; the deadline of a rename.
const lateMost = 1900 * time.Millisecond

// lateOrder is the same for an order, which has a longer deadline.
const lateOrder = host.OrderDeadline
