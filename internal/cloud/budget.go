package cloud

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// Class says whose share of a Budget a request takes.
type Class int

// The classes. Each is sure of half the budget and may use what the other leaves.
const (
	// ClassAct is a request about one thing.
	ClassAct Class = iota
	// ClassList is a page of a list.
	ClassList
	classes
)

// Outcome of a request, as far as the budget goes.
type Outcome int

// The outcomes.
const (
	// Lost: there was no answer.
	Lost Outcome = iota
	// Answered in any way but Throttled.
	Answered
	// Throttled: the vendor asked for fewer requests, without saying for how long.
	Throttled
)

// Bounds of the pause that all requests take after the vendor throttled one. It
// never says for how long (no Retry-After was ever recorded).
const (
	firstPause = time.Second
	longPause  = 30 * time.Second
	// patience bounds how long a request waits for the end of a pause: a worker
	// has other things to do than to wait out a long one.
	patience = 2 * time.Second
)

// BudgetOptions of a Budget.
type BudgetOptions struct {
	// QPS is the number of requests a second. Default: no bound.
	QPS float64
	// Clock for tests. Default: the real one.
	Clock clock.Clock
}

// Budget keeps the requests of one project within a rate, shared fairly by two
// classes, and pauses them together while the vendor throttles: exponentially,
// with jitter, and with one request alone to find out whether the pause can end.
type Budget struct {
	clock  clock.Clock
	shares [classes]*rate.Limiter

	mu          sync.Mutex
	pause       time.Duration // 0: open
	closedUntil time.Time
	probing     bool
	changed     chan struct{} // closed when the above changes
}

// NewBudget returns an open budget.
func NewBudget(o BudgetOptions) *Budget {
	b := &Budget{clock: o.Clock, changed: make(chan struct{})}
	if b.clock == nil {
		b.clock = clock.RealClock{}
	}
	share := rate.Limit(o.QPS) / rate.Limit(classes)
	if o.QPS <= 0 {
		share = rate.Inf
	}
	for i := range b.shares {
		b.shares[i] = rate.NewLimiter(share, max(1, int(o.QPS)/int(classes)))
	}
	return b
}

// Admit waits until a request may be sent. Each admitted request must end with
// one call of done. The error is the context's, or a KindThrottled one when the
// wait would outlast the context's deadline or a worker's patience.
func (b *Budget) Admit(ctx context.Context, class Class) (done func(Outcome), err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := b.awaitOpen(ctx); err != nil {
			return nil, err
		}
		if err := b.take(ctx, class); err != nil {
			return nil, err
		}
		if probe, ok := b.enter(); ok {
			return func(o Outcome) { b.settle(probe, o) }, nil
		}
	}
}

// awaitOpen waits for the end of a pause.
func (b *Budget) awaitOpen(ctx context.Context) error {
	giveUp := b.clock.Now().Add(patience)
	for {
		rest, changed := b.rest()
		if rest <= 0 {
			return nil
		}
		left := giveUp.Sub(b.clock.Now())
		if left <= 0 || rest > left || beyond(ctx, rest) {
			return throttled(fmt.Sprintf("the vendor throttles: no calls for another %s", rest.Round(time.Second/10)))
		}
		if err := b.sleep(ctx, rest, changed); err != nil {
			return err
		}
	}
}

// rest is how long no request may be sent, and what tells of a change.
func (b *Budget) rest() (time.Duration, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.pause == 0:
		return 0, nil
	case b.probing:
		// Nobody knows how long the one that tries takes.
		return patience / 2, b.changed
	}
	return b.closedUntil.Sub(b.clock.Now()), b.changed
}

// enter makes the first request after a pause the one that tries.
func (b *Budget) enter() (probe, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pause == 0 {
		return false, true
	}
	if b.probing || b.clock.Now().Before(b.closedUntil) {
		return false, false
	}
	b.probing = true
	return true, true
}

// settle opens the budget after an answered try, and begins or lengthens the
// pause after a refusal. Those that were on their way when the pause began say
// nothing new.
func (b *Budget) settle(probe bool, o Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !probe && (b.pause != 0 || o != Throttled) {
		return
	}
	b.probing = false
	switch o {
	case Answered:
		b.pause = 0
	case Throttled:
		b.pause = min(max(2*b.pause, firstPause), longPause)
		// Jitter keeps several managers of a project apart.
		b.closedUntil = b.clock.Now().Add(b.pause/2 + rand.N(b.pause/2))
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// take waits for a request of the class's own share, or takes one that the other
// class is unlikely to miss: it keeps half its burst.
func (b *Budget) take(ctx context.Context, class Class) error {
	now := b.clock.Now()
	own, other := b.shares[class], b.shares[classes-1-class]
	if own.AllowN(now, 1) {
		return nil
	}
	if other.TokensAt(now) > float64(other.Burst())/2 && other.AllowN(now, 1) {
		return nil
	}
	place := own.ReserveN(now, 1)
	wait := place.DelayFrom(now)
	if beyond(ctx, wait) {
		place.CancelAt(now)
		return throttled("no request budget within the call's deadline")
	}
	if err := b.sleep(ctx, wait, nil); err != nil {
		place.CancelAt(b.clock.Now())
		return err
	}
	return nil
}

// sleep ends early when changed does, and with the context's error when that ends.
func (b *Budget) sleep(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	timer := b.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-timer.C():
	}
	return nil
}

// beyond reports that the context ends before the wait does.
func beyond(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && wait > time.Until(deadline)
}

func throttled(message string) error {
	return &Error{Kind: KindThrottled, Doing: "wait for the vendor", Message: message}
}
