// Package slot counts the guests that may run at once on a host: two at most by
// Apple's licence. It knows names, not machines: package pod takes a slot before a
// clone is made and gives it back when nothing of the machine is left.
package slot

import (
	"context"
	"fmt"
	"sync"
)

// Gate hands out a fixed number of slots in the order they were asked for.
type Gate struct {
	mu      sync.Mutex
	limit   int
	holders map[string]bool
	queue   []*waiter
}

type waiter struct {
	name  string
	ready chan struct{}
}

// New returns a gate with that many slots, one at least.
func New(limit int) *Gate {
	return &Gate{limit: max(1, limit), holders: map[string]bool{}}
}

// Acquire waits for a slot. A name that holds one already keeps it.
func (g *Gate) Acquire(ctx context.Context, name string) error {
	w := g.ask(name)
	if w == nil {
		return nil
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		g.withdraw(w)
		return fmt.Errorf("waiting for a free VM slot: %w", context.Cause(ctx))
	}
}

// ask returns nil when the slot is given at once.
func (g *Gate) ask(name string) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holders[name] || (len(g.queue) == 0 && len(g.holders) < g.limit) {
		g.holders[name] = true
		return nil
	}
	w := &waiter{name: name, ready: make(chan struct{})}
	g.queue = append(g.queue, w)
	return w
}

// Adopt gives a slot at once, even beyond the limit: to what runs already.
func (g *Gate) Adopt(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holders[name] = true
}

// Release gives a slot back; it is no error to release what is not held.
func (g *Gate) Release(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.holders, name)
	g.admit()
}

// Free returns how many slots are not taken.
func (g *Gate) Free() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, g.limit-len(g.holders))
}

func (g *Gate) admit() {
	for len(g.queue) > 0 && len(g.holders) < g.limit {
		w := g.queue[0]
		g.queue = g.queue[1:]
		g.holders[w.name] = true
		close(w.ready)
	}
}

// withdraw takes a waiter that gave up out of the queue; a slot that was given to
// it in the same moment goes on to the next.
func (g *Gate) withdraw(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, q := range g.queue {
		if q == w {
			g.queue = append(g.queue[:i], g.queue[i+1:]...)
			g.admit()
			return
		}
	}
	delete(g.holders, w.name)
	g.admit()
}
