package pod

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

// progress is how far a Pod has come. Only its worker's own goroutine touches it, but
// for what is published.
type progress struct {
	state.Record
	// ran: a container of the Pod has run; mainRan: the main one has.
	ran, mainRan bool
	// reconstructed: the record was made up, as the checkpoint was gone.
	reconstructed bool

	// published is the record as others may see it; nil: nothing is known yet.
	published atomic.Pointer[state.Record]

	// life ends the tries to save.
	life context.Context
	// unsaved is told why, once for all tries of one save. May be nil.
	unsaved     func(error)
	checkpoints checkpoint.Store
	clock       clock.Clock
	log         *slog.Logger
}

// publish shows the record to other goroutines.
func (g *progress) publish() {
	r := g.Record
	r.Inits = slices.Clone(r.Inits)
	g.published.Store(&r)
}

// save writes the checkpoint. When the disk fails it is tried until it works or the
// Pod's life ends: nothing may happen that is not written down.
func (g *progress) save() {
	g.publish()
	told := g.unsaved == nil
	for delay := time.Second; ; delay = min(2*delay, time.Minute) {
		err := g.checkpoints.Save(g.Record)
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

// container is the record of the i-th init container; of the main one for -1.
func (g *progress) container(i int) *state.ContainerRecord {
	if i < 0 || i >= len(g.Inits) {
		return &g.ContainerRecord
	}
	return &g.Inits[i]
}
