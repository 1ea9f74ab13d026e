package world

import (
	"context"
	"log/slog"
	"time"
)

// restarts are the pauses before a manager that ended by itself is started again, as
// a kubelet would: they double while it does not come to be ready. The zero value is
// one second, and never more than half a minute.
type restarts struct{ first, longest time.Duration }

func (r restarts) pauses() (first, longest time.Duration) {
	if r.first == 0 {
		return time.Second, 30 * time.Second
	}
	return r.first, r.longest
}

// keep has the manager started again each time it ends by itself, until letGo.
func (m *manager) keep(log *slog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	kept := make(chan struct{})
	m.unkeep, m.kept = cancel, kept
	go func() {
		defer close(kept)
		first, longest := m.restarts.pauses()
		for pause := first; m.ends(ctx); {
			log.Error("a manager does not run and is started again", "manager", m.name, "in", pause, "error", m.current().Exit())
			if err := m.startAfter(ctx, pause); err != nil {
				log.Error("a manager could not be started again", "manager", m.name, "error", err)
				pause = min(2*pause, longest)
			} else {
				pause = first
			}
		}
	}()
}

// letGo ends what keep began, and leaves the process as it is.
func (m *manager) letGo() {
	if m.unkeep != nil {
		m.unkeep()
		<-m.kept
	}
}

// ends waits for the end of the process; false when it is let go before.
func (m *manager) ends(ctx context.Context) bool {
	select {
	case <-m.current().Ended():
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (m *manager) startAfter(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
		return m.start(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
