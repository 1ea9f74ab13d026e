package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/cluster"
	"github.com/macfleet/macfleet/test/bench/figure"
)

// freedHosts is the number of hosts that go round.
const freedHosts = 20

// freedInventory is shorter than by default, so that wipes are seen soon: what is
// measured begins after them.
const freedInventory = 2 * time.Second

// freed is how long a host stays Available while Machines wait: from the event of
// the status that says so to the event of the claim, as one watch sees both.
type freed struct {
	Frees   int           `json:"frees"`
	Waiting int           `json:"waitingMachines"`
	Times   figure.Sample `json:"availableToClaimed"`
	// Requests to the API server in all, from release to the next Node.
	Requests      requestCounts `json:"requests"`
	RequestsAFree float64       `json:"requestsAFree"`
}

func measureFreed(ctx context.Context, binaries cluster.Binaries, s settings) (*freed, error) {
	say("freed hosts: starting an API server, the controllers and %d hosts", freedHosts)
	w, err := start(ctx, binaries, options{servers: freedHosts, inventory: freedInventory, settings: s})
	if err != nil {
		return nil, err
	}
	defer w.stop()
	w.switchOn()
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
	before := w.requests.since(nil)
	times, err := w.goRound(ctx, s.frees, total, s.atOnce)
	if err != nil {
		return nil, err
	}
	requests := w.requests.since(before)
	return &freed{
		Frees: len(times), Waiting: s.waiting, Times: figure.Milliseconds(times),
		Requests: requests, RequestsAFree: float64(requests.sum()) / float64(len(times)),
	}, nil
}

// goRound deletes running Machines and makes new ones, until enough of their
// hosts have been claimed again.
func (w *world) goRound(ctx context.Context, frees, next, atOnce int) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	churning, enough := context.WithCancel(ctx)
	group, groupCtx := errgroup.WithContext(ctx)
	var times []time.Duration
	group.Go(func() (err error) {
		defer enough()
		times, err = w.watchFrees(groupCtx, frees)
		return err
	})
	group.Go(func() error {
		err := w.churn(churning, next, atOnce)
		if churning.Err() != nil {
			return nil
		}
		return err
	})
	err := group.Wait()
	return times, err
}

// churn deletes Machines that run, as long as no more hosts than allowed are on
// their way to the next.
func (w *world) churn(ctx context.Context, next, atOnce int) error {
	deleted := map[string]bool{}
	return until(ctx, func() (bool, error) {
		machines, err := w.machines(ctx)
		if err != nil {
			return false, err
		}
		room := atOnce - freedHosts + running(machines)
		for _, m := range machines {
			if !runs(m) || deleted[m.Name] || room <= 0 {
				continue
			}
			room--
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
	var times []time.Duration
	since := map[string]time.Time{}
	err := w.watchHosts(ctx, func(h *infrav1.ScalewayAppleSiliconHost) (done bool) {
		now := time.Now()
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
		return len(times) == frees
	})
	if err != nil {
		return nil, fmt.Errorf("of %d hosts %d are claimed again: %w", frees, len(times), err)
	}
	return times, nil
}
