package pod

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

// progress is how far a Pod has come. Only its worker's own goroutine touches it, but for
// what is published, and while several goroutines do by change and record: those of containers
// that run beside one another, or end so.
type progress struct {
	mu sync.Mutex
	state.Record
	// ran: a container of the Pod has run; mainRan: all that are no init containers have.
	ran, mainRan bool
	// reconstructed: the record was made up, as the checkpoint was gone.
	reconstructed bool

	// published is the record as others may see it; nil: nothing is known yet.
	published atomic.Pointer[state.Record]
	// saving is held by who writes, so that the newest record is written last.
	saving sync.Mutex

	// life ends the tries to save.
	life context.Context
	// unsaved is told why, once for all tries of one save. May be nil.
	unsaved     func(error)
	checkpoints checkpoint.Store
	clock       clock.Clock
	log         *slog.Logger
}

// change has the record changed by one goroutine at a time.
func (g *progress) change(by func(*state.Record)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	by(&g.Record)
}

// record is a copy of the record.
func (g *progress) record() state.Record {
	r, _ := g.seen()
	return r
}

// seen is a copy of the record, and whether all but init containers have run.
func (g *progress) seen() (state.Record, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Record.Clone(), g.mainRan
}

// publish shows the record to other goroutines.
func (g *progress) publish() {
	r := g.record()
	g.published.Store(&r)
}

// save writes the checkpoint. When the disk fails it is tried until it works or the
// Pod's life ends: nothing may happen that is not written down.
func (g *progress) save() {
	g.saving.Lock()
	defer g.saving.Unlock()
	g.publish()
	told := g.unsaved == nil
	for delay := time.Second; ; delay = min(2*delay, time.Minute) {
		err := g.checkpoints.Save(g.record())
		if err == nil {
			return
		}
		g.log.Error("the checkpoint cannot be written", "err", err)
		if !told {
			told = true
			g.unsaved(err)
		}
		if wait.For(g.life, g.clock, delay) != nil {
			return
		}
	}
}

// dir is that of the attempt.
func (g *progress) dir() string { return g.checkpoints.AttemptDir(g.UID, g.Attempt) }

// begun is when the container at a place began in this attempt; zero: it did not.
func (g *progress) begun(at state.Place) time.Time {
	r := g.record()
	return r.Container(at).Begun
}
