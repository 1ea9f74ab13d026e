package allocation

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// Ledger of one host. Pods that an agent before this one admitted come first: nobody
// else is admitted before they are all in it.
type Ledger struct {
	capacity Amount

	mu   sync.Mutex
	held map[types.UID]holding
	// expected Pods were there when the agent started, and have not said yet what they
	// hold; opened: no more of them are to come.
	expected map[types.UID]bool
	opened   bool
	// changed is closed and replaced when there may be more room.
	changed chan struct{}
}

// New returns a ledger of what Pods can have together.
func New(capacity Amount) *Ledger {
	return &Ledger{capacity: capacity, held: map[types.UID]holding{}, expected: map[types.UID]bool{}, changed: make(chan struct{})}
}

// Expect holds admission up until the Pod is Settled.
func (l *Ledger) Expect(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected[uid] = !l.opened
}

// Open says that all Pods which are expected are known.
func (l *Ledger) Open() { l.change(func() { l.opened = true }) }

// Settled says that the Pod holds what it holds.
func (l *Ledger) Settled(uid types.UID) { l.change(func() { delete(l.expected, uid) }) }

// Restore enters a Pod that was admitted before, with the memory of its VM; 0: it has
// none.
func (l *Ledger) Restore(uid types.UID, requests Amount, memory int64) {
	l.change(func() { l.held[uid] = holding{requests: requests, memory: memory} })
}

// Release forgets a Pod of which nothing runs any more.
func (l *Ledger) Release(uid types.UID) {
	l.change(func() {
		delete(l.held, uid)
		delete(l.expected, uid)
	})
}

func (l *Ledger) change(how func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Admit enters a Pod, or says why it does not fit. It waits for those that were admitted
// before; the error is that of ctx.
func (l *Ledger) Admit(ctx context.Context, uid types.UID, requests Amount) (*state.Failure, error) {
	for {
		refused, wait := l.admit(uid, requests)
		if wait == nil {
			return refused, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the Pods before: %w", context.Cause(ctx))
		}
	}
}

func (l *Ledger) admit(uid types.UID, requests Amount) (*state.Failure, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, before := range l.expected {
		if before && other != uid {
			return nil, l.changed
		}
	}
	if !l.opened {
		return nil, l.changed
	}
	if refused := refusal(l.capacity, l.others(uid), requests); refused != nil {
		return refused, nil
	}
	l.held[uid] = holding{requests: requests}
	return nil, nil
}

// Readmit promises a Pod of which nothing runs other requests than it was admitted with,
// and reports whether they fit: else it keeps those it has.
func (l *Ledger) Readmit(uid types.UID, requests Amount) bool {
	fits := false
	l.change(func() {
		if fits = refusal(l.capacity, l.others(uid), requests) == nil; fits {
			l.held[uid] = holding{requests: requests}
		}
	})
	return fits
}

// Acquire gives the VM of an admitted Pod its memory in bytes, in place of what the Pod
// had. Where there is too little it says so once and waits; the error is that of ctx.
func (l *Ledger) Acquire(ctx context.Context, uid types.UID, requests Amount, n Need, waits func(message string)) (int64, error) {
	for told := false; ; told = true {
		given, message, wait := l.acquire(uid, requests, n)
		if wait == nil {
			return given, nil
		}
		if !told {
			waits(message)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for memory: %w", context.Cause(ctx))
		}
	}
}

func (l *Ledger) acquire(uid types.UID, requests Amount, n Need) (given int64, message string, wait <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := l.others(uid)
	given, fits := fit(l.capacity.MemoryBytes, others, n)
	if fits {
		l.held[uid] = holding{requests: requests, memory: given}
		return given, "", nil
	}
	// It has no VM now. What that had is not kept from those whom this Pod waits for, nor is
	// what it was promised, where it waits for more.
	before, now := l.held[uid], holding{requests: requests, waits: n.Least > requests.MemoryBytes}
	if before.memory > 0 || now.waits && !before.waits {
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.held[uid] = now
	return 0, fmt.Sprintf("the VM needs %d MiB of memory at least, and other Pods have %d of %d MiB: it waits until one of them ends",
		n.Least>>20, taken(others)>>20, l.capacity.MemoryBytes>>20), l.changed
}

// others are the holdings of all Pods but one.
func (l *Ledger) others(uid types.UID) []holding {
	list := make([]holding, 0, len(l.held))
	for other, h := range l.held {
		if other != uid {
			list = append(list, h)
		}
	}
	return list
}
