package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/cluster"
)

// freedHosts is the number of hosts that go round.
const freedHosts = 20

// freedInventory is shorter than by default, so that wipes are seen soon: what is
// measured begins after them.
const freedInventory = 2 * time.Second

// freed is how long a host stays Available while Machines wait: from the event of
// the status that says so to the event of the claim, as one watch sees both.
type freed struct {
	Frees   int          `json:"frees"`
	Waiting int          `json:"waitingMachines"`
	Times   distribution `json:"availableToClaimed"`
}

func measureFreed(ctx context.Context, binaries cluster.Binaries, s settings) (_ *freed, err error) {
	say("freed hosts: starting an API server, the controllers and %d hosts", freedHosts)
	w, err := start(ctx, binaries, options{servers: freedHosts, inventory: freedInventory, settings: s})
	if err != nil {
		return nil, err
	}
	defer func() { err = joined(err, w.stop()) }()
	if err := w.makeCluster(ctx); err != nil {
		return nil, err
	}
	if err := w.open(ctx); err != nil {
		return nil, err
	}
	total := freedHosts + s.waiting
	if err := w.makeMachines(ctx, 0, total); err != nil {
		return nil, err
	}
	if err := w.awaitRunning(ctx, freedHosts); err != nil {
		return nil, err
	}
	say("freed hosts: %d Machines run, %d wait; freeing %d hosts", freedHosts, s.waiting, s.frees)
	times, err := w.goRound(ctx, s.frees, total)
	if err != nil {
		return nil, err
	}
	return &freed{Frees: len(times), Waiting: s.waiting, Times: distributionOf(times)}, nil
}

// goRound deletes running Machines and makes new ones, until enough of their
// hosts have been claimed again.
func (w *world) goRound(ctx context.Context, frees, next int) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	group, groupCtx := errgroup.WithContext(ctx)
	var times []time.Duration
	group.Go(func() error {
		defer cancel() // enough is measured: the other ends too
		var err error
		times, err = w.watchFrees(groupCtx, frees)
		return err
	})
	group.Go(func() error {
		err := w.churn(groupCtx, next)
		if len(times) > 0 || ctx.Err() != nil {
			return nil
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return times, nil
}

func (w *world) churn(ctx context.Context, next int) error {
	deleted := map[string]bool{}
	return until(ctx, func() (bool, error) {
		machines, err := w.machines(ctx)
		if err != nil {
			return false, err
		}
		for _, m := range machines {
			if m.Status.Phase != "Running" || deleted[m.Name] || !m.DeletionTimestamp.IsZero() {
				continue
			}
			deleted[m.Name] = true
			if err := w.makeMachines(ctx, next, 1); err != nil {
				return false, err
			}
			next++
			if err := w.deleteMachine(ctx, m.Name); err != nil {
				return false, err
			}
		}
		return false, nil
	})
}

// watchFrees times the claims of hosts that became free after a wipe.
func (w *world) watchFrees(ctx context.Context, frees int) ([]time.Duration, error) {
	watch, err := w.client.Watch(ctx, &infrav1.ScalewayAppleSiliconHostList{})
	if err != nil {
		return nil, fmt.Errorf("watching hosts: %w", err)
	}
	defer watch.Stop()
	var times []time.Duration
	since := map[string]time.Time{}
	for event := range watch.ResultChan() {
		now := time.Now()
		h, ok := event.Object.(*infrav1.ScalewayAppleSiliconHost)
		if !ok {
			continue
		}
		at, waits := since[h.Name]
		switch {
		case h.Spec.ClaimRef == nil && h.Status.Phase == infrav1.HostAvailable && !waits:
			since[h.Name] = now
		case h.Spec.ClaimRef != nil && waits:
			times = append(times, now.Sub(at))
			delete(since, h.Name)
			if len(times)%50 == 0 {
				say("freed hosts: %d of %d claimed again", len(times), frees)
			}
		}
		if len(times) == frees {
			return times, nil
		}
	}
	return nil, fmt.Errorf("the watch ended after %d of %d", len(times), frees)
}
