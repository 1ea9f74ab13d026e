package pod

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

const (
	// usageInterval is how often the sizes of volumes are looked at.
	usageInterval = 10 * time.Second
	// usageShare: looking takes one part in so many of the time, however many files
	// there are.
	usageShare = 20
)

// refreshVolumes keeps the Pod's volumes up to date until ctx ends, or until one has
// outgrown its limit: then evict is called. prepared is nil for a VM that an earlier
// agent started.
func (i *podInputs) refreshVolumes(ctx context.Context, prepared *Prepared, evict func(why string)) {
	// An earlier agent may not have made a refresh that was due: it is due at once.
	due, changed, relabeled, failures := i.clock.Now(), i.source.Changed(i.pod.uid), i.pod.relabels(), 0
	if prepared != nil {
		due, changed, relabeled = prepared.RefreshAt, prepared.changed, prepared.relabeled
	}
	interval := usageInterval
	for {
		delay := interval
		if left := due.Sub(i.clock.Now()); !due.IsZero() && left < delay {
			delay = max(0, left)
		}
		news, err := wait.Either(ctx, i.clock, changed, relabeled, delay)
		if err != nil {
			return
		}
		began := i.clock.Now()
		if full := i.source.Overfull(i.pod.current()); full != "" {
			evict(full)
			return
		}
		interval = max(usageInterval, usageShare*i.clock.Since(began))
		if !news && (due.IsZero() || i.clock.Now().Before(due)) {
			continue
		}
		changed, relabeled = i.source.Changed(i.pod.uid), i.pod.relabels()
		due, err = i.source.Refresh(ctx, i.pod.current())
		if err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		failures++
		// What was renewed may be due before what failed is tried again.
		if again := i.clock.Now().Add(state.PullDelay(failures)); due.IsZero() || again.Before(due) {
			due = again
		}
		i.reportNotRefreshed(failures, err)
	}
}

// reportNotRefreshed sends an event for the first failure in a row, in one line.
func (i *podInputs) reportNotRefreshed(failures int, err error) {
	i.log.Warn("volumes were not renewed, the guest goes on with what it has", "err", err)
	if failures == 1 {
		i.report.event(corev1.EventTypeWarning, eventReason(err), "Volumes were not renewed, the guest goes on with what it has: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}
