package agent

import (
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/health"
)

// reliefInterval is how long a host that stays short of disk waits for the next try
// to make room.
const reliefInterval = 5 * time.Minute

// findings of a host, as health.Monitor has them.
type findings interface {
	Findings() []health.Finding
	Changed() <-chan struct{}
	LookAgain()
}

// relieve makes room as soon as the host is short of disk, and again while it is.
func relieve(ctx context.Context, host findings, free func(context.Context) error, log *slog.Logger) error {
	for ctx.Err() == nil {
		changed := host.Changed()
		var again <-chan time.Time
		if shortOfDisk(host.Findings()) {
			if err := free(ctx); err != nil && ctx.Err() == nil {
				log.Warn("making room on a host that is short of disk", "err", err)
			}
			host.LookAgain()
			again = time.After(reliefInterval)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-again:
		}
	}
	return nil
}

func shortOfDisk(found []health.Finding) bool {
	return slices.ContainsFunc(found, func(f health.Finding) bool {
		return f.Type == corev1.NodeDiskPressure && f.Status == corev1.ConditionTrue
	})
}
