// Package slot counts the guests that may run at once on a host: two at most by
// Apple's licence, fewer once the system has lost count of them. Package pod takes a
// slot before a clone is made and gives it back when nothing of the machine is left;
// package node tells the cluster what Allocatable says.
//
// macOS counts macOS guests in its kernel, and sometimes goes on counting one that is
// gone. Nothing but a reboot brings such a place back. A start that the licence
// refused is how it shows: see Limited.
package slot

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Licence is how many macOS guests Apple's licence allows beside the host's own
// macOS; the kernel enforces it.
const Licence = 2

// foreignPrefix starts the holder's name of a guest that is not ours.
const foreignPrefix = "machine/"

// Gate hands out slots in the order they were asked for.
type Gate struct {
	file        string
	bootSession string
	log         *slog.Logger

	mu       sync.Mutex
	maxSlots int
	holders  map[string]bool
	// taken are guests of others by the name that has their slot: see TakeForeign.
	taken   map[string]string
	queue   []*waiter
	leak    leak
	changed chan struct{}
	shown   State
}

type waiter struct {
	name  string
	ready chan struct{}
}

// Options of Open.
type Options struct {
	// Limit is how many guests may run at once; one at least.
	Limit int
	// File keeps what is known of a leak. Empty: a new process knows nothing of it.
	File string
	// BootSession of the host: a leak ends with it.
	BootSession string
	// Log is told of each change. Nil: the default.
	Log *slog.Logger
}

// Open returns a gate that remembers the leaks of this boot. A file that cannot be
// read is as good as none: the next refused start tells the same again.
func Open(o Options) *Gate {
	g := &Gate{
		maxSlots: max(1, o.Limit), holders: map[string]bool{}, taken: map[string]string{}, changed: make(chan struct{}),
		file: o.File, bootSession: o.BootSession, log: o.Log,
	}
	if g.log == nil {
		g.log = slog.Default()
	}
	g.leak = g.loadLeak()
	g.shown = g.state()
	return g
}

// New returns a gate with that many slots, one at least, which remembers nothing.
func New(limit int) *Gate { return Open(Options{Limit: limit}) }

// Acquire waits for a slot. A name that holds one already keeps it.
func (g *Gate) Acquire(ctx context.Context, name string) error {
	w := g.enqueue(name)
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

// enqueue returns nil when the slot is given at once.
func (g *Gate) enqueue(name string) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	// A free slot is nobody else's: update gives free slots to the queue with every change.
	if g.holders[name] || len(g.holders) < g.limit() {
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
	g.update()
}

// TakeForeign gives the slot of a guest of others to a name: it is this one's until GuestDeleted,
// or until the name has no slot any more, whatever Foreign says, which may have been read before.
func (g *Gate) TakeForeign(guest, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.taken[guest] = name
	delete(g.holders, foreignPrefix+guest)
	g.holders[name] = true
	g.update()
}

// GuestDeleted ends what TakeForeign began: another guest of that name is one of others again.
func (g *Gate) GuestDeleted(guest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.taken, guest)
}

// Release gives a slot back; it is no error to release what is not held.
func (g *Gate) Release(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.holders, name)
	g.update()
}

// Foreign says which macOS guests of others run: each takes a slot at once, and those
// that are not among them any more give theirs back.
func (g *Gate) Foreign(names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for holder := range g.holders {
		if name, foreign := strings.CutPrefix(holder, foreignPrefix); foreign && !slices.Contains(names, name) {
			delete(g.holders, holder)
		}
	}
	for _, name := range names {
		if !g.holders[g.taken[name]] {
			g.holders[foreignPrefix+name] = true
		}
	}
	g.update()
}

// Limited judges a start that the licence refused, from the machines that there are
// now that it has failed, and returns how many places are lost. Who was refused
// should give its slot back and ask for another.
func (g *Gate) Limited(machines []vm.Machine) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if lost := lost(machines); lost > g.leak.Leaked {
		g.leak.Leaked = lost
		g.log.Warn("the licence refused a guest although fewer run than it allows: only a reboot helps",
			"lost", lost, "running", Licence-lost)
		g.saveLeak()
	}
	g.update()
	return g.leak.Leaked
}

// lost is how many places of the licence nobody can use, when it has just refused a
// guest while these machines were there: those that no running macOS guest takes.
// A process that holds a machine counts, whether its guest is up or about to be.
func lost(machines []vm.Machine) int {
	running := 0
	for _, m := range machines {
		if m.Running && m.MacOS {
			running++
		}
	}
	return max(0, Licence-running)
}

// Leaked is how many places the system has lost in this boot.
func (g *Gate) Leaked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leak.Leaked
}

// limit is what the configuration and the leak leave. Once a leak has left the host
// empty nothing starts before the reboot that heals it: whoever reboots can rely on
// that.
func (g *Gate) limit() int {
	switch {
	case g.leak.Sealed:
		return 0
	case g.leak.Leaked > 0:
		return max(0, min(g.maxSlots, Licence-g.leak.Leaked))
	}
	return g.maxSlots
}

// Free returns how many slots are not taken.
func (g *Gate) Free() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, g.limit()-len(g.holders))
}

// State is what a Node tells of its slots.
type State struct {
	// Allocatable is how many guests of Pods there is place for, running ones included.
	Allocatable int
	// Leaked places, and Foreign guests by name, are why it may be lower than configured.
	Leaked  int
	Foreign []string
}

// State returns how things are.
func (g *Gate) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state()
}

func (g *Gate) state() State {
	s := State{Leaked: g.leak.Leaked}
	for name := range g.holders {
		if machine, foreign := strings.CutPrefix(name, foreignPrefix); foreign {
			s.Foreign = append(s.Foreign, machine)
		}
	}
	slices.Sort(s.Foreign)
	s.Allocatable = max(0, g.limit()-len(s.Foreign))
	return s
}

// Changed is closed when State has something else to say. Ask for it before State.
func (g *Gate) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// update follows any change: a leaking host that is empty is sealed, the queue gets
// the free slots, and Changed is closed.
func (g *Gate) update() {
	if g.leak.Leaked > 0 && !g.leak.Sealed && len(g.holders) == 0 {
		g.leak.Sealed = true
		g.log.Info("no guest runs: nothing is started before the reboot that heals the licence's count")
		g.saveLeak()
	}
	for len(g.queue) > 0 && len(g.holders) < g.limit() {
		w := g.queue[0]
		g.queue = g.queue[1:]
		g.holders[w.name] = true
		close(w.ready)
	}
	if now := g.state(); !same(now, g.shown) {
		g.shown = now
		close(g.changed)
		g.changed = make(chan struct{})
	}
}

func same(a, b State) bool {
	return a.Allocatable == b.Allocatable && a.Leaked == b.Leaked && slices.Equal(a.Foreign, b.Foreign)
}

// withdraw takes a waiter that gave up out of the queue; a slot that was given to
// it in the same moment goes on to the next.
func (g *Gate) withdraw(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, w); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
	} else {
		delete(g.holders, w.name)
	}
	g.update()
}
