package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
)

// Parts of the fleet that things happen to, in hundredths.
const (
	replaced       = 30
	released       = 50
	underWay       = 10 // of the hosts, when something happens to the managers or the vendor
	deletedAway    = 5  // while the vendor is away
	changedAtOnce  = 5  // in a roll-out
	wholeHundredth = 100
)

func part(of, hundredths int) int { return max(1, of*hundredths/wholeHundredth) }

// everything is what happens to the largest fleet, all of whose Machines run: before and after.
func (b *bench) everything(ctx context.Context, n int) error {
	half := n - part(n, released)
	for _, p := range []struct {
		name string
		act  func(context.Context) error
	}{
		{"roll-out of a profile", b.rollOut},
		{"three in ten replaced", func(ctx context.Context) error { return b.replace(ctx, part(n, replaced)) }},
		{"half released", func(ctx context.Context) error { return b.scaleAndAwait(ctx, half) }},
		{"vendor away during claims", func(ctx context.Context) error { return b.vendorAway(ctx, half, n) }},
		{"leader killed during wipes", func(ctx context.Context) error { return b.leaderKilled(ctx, half) }},
		{"both managers killed during claims", func(ctx context.Context) error { return b.managersKilled(ctx, half, n) }},
	} {
		if err := b.phase(ctx, p.name, n, p.act); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) scaleAndAwait(ctx context.Context, replicas int) error {
	if err := b.fleet.scale(ctx, replicas); err != nil {
		return err
	}
	return b.fleet.awaitFleet(ctx, replicas)
}

// policy has roll-outs wait for nothing but the Macs.
func (b *bench) policy(ctx context.Context, n int) error {
	return b.fleet.patchFleet(ctx, &infrav1.MacNodeProfile{},
		fmt.Sprintf(`{"spec":{"rollout":{"canary":1,"soak":"2s","maxUnavailable":%d}}}`, part(n, changedAtOnce)))
}

// rollOut gives all Macs another configuration, in turns.
func (b *bench) rollOut(ctx context.Context) error {
	profile := &infrav1.MacNodeProfile{}
	if err := b.fleet.patchFleet(ctx, profile, `{"spec":{"images":{"gcHighPercent":82}}}`); err != nil {
		return err
	}
	generation := profile.Generation
	var listErr error
	err := b.fleet.await(ctx, "the profile to be rolled out", func(counts) bool {
		listErr = b.fleet.client.Get(ctx, client.ObjectKeyFromObject(profile), profile)
		c := meta.FindStatusCondition(profile.Status.Conditions, infrav1.RolledOutCondition)
		return listErr == nil && c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= generation
	})
	return errors.Join(err, listErr)
}

// deleteMachines deletes so many of the Machines that run, and returns which.
func (b *bench) deleteMachines(ctx context.Context, count int) ([]string, error) {
	machines, err := b.fleet.machines(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range machines {
		if m.Status.Phase == running && m.DeletionTimestamp == nil {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	names = names[:min(count, len(names))]
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range names {
		group.Go(func() error {
			return b.fleet.client.Delete(groupCtx, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: name}})
		})
	}
	return names, group.Wait()
}

// replace deletes Machines, as people do who want them made anew: each host is wiped before the next has it.
func (b *bench) replace(ctx context.Context, count int) error {
	before, err := b.fleet.counts(ctx)
	if err != nil {
		return err
	}
	names, err := b.deleteMachines(ctx, count)
	if err != nil {
		return err
	}
	if err := b.awaitGone(ctx, names); err != nil {
		return err
	}
	return b.fleet.awaitFleet(ctx, before.Running)
}

func (b *bench) awaitGone(ctx context.Context, names []string) error {
	return b.fleet.await(ctx, fmt.Sprintf("the end of %d Machines", len(names)), func(counts) bool {
		machines, err := b.fleet.machines(ctx)
		return err == nil && !slices.ContainsFunc(machines, func(m infrav1.ScalewayAppleSiliconMachine) bool { return slices.Contains(names, m.Name) })
	})
}

// vendorAway has the vendor not answer while Machines are claimed and others deleted. Those that ran do not notice.
func (b *bench) vendorAway(ctx context.Context, from, to int) error {
	if err := b.fleet.scale(ctx, to); err != nil {
		return err
	}
	if err := b.awaitClaimed(ctx, from+part(to, underWay)); err != nil {
		return err
	}
	if err := b.fleet.set(away()); err != nil {
		return err
	}
	deleted, err := b.deleteMachines(ctx, part(to, deletedAway))
	if err != nil {
		return err
	}
	machines, err := b.fleet.machines(ctx)
	if err != nil {
		return err
	}
	before := tenancies(machines)
	for _, name := range deleted {
		delete(before, name)
	}
	say("the vendor is away for %s, with %d Machines claimed", b.settings.outage, len(before))
	if err := pause(ctx, b.settings.outage); err != nil {
		return err
	}
	during, err := b.fleet.counts(ctx)
	if err != nil {
		return err
	}
	say("the vendor answers again: %s", during)
	if err := b.fleet.set(weather(b.settings.latency, b.settings.jitter, b.settings.faults)); err != nil {
		return err
	}
	if err := b.awaitGone(ctx, deleted); err != nil {
		return err
	}
	if err := b.fleet.awaitFleet(ctx, to); err != nil {
		return err
	}
	if machines, err = b.fleet.machines(ctx); err != nil {
		return err
	}
	b.wrong(disturbed(before, tenancies(machines)))
	return nil
}

func (b *bench) awaitClaimed(ctx context.Context, claimed int) error {
	return b.fleet.await(ctx, fmt.Sprintf("%d claims", claimed), func(c counts) bool { return c.Claimed >= claimed })
}

// leaderKilled kills the manager that leads while hosts are wiped.
func (b *bench) leaderKilled(ctx context.Context, to int) error {
	if err := b.fleet.scale(ctx, to); err != nil {
		return err
	}
	err := b.fleet.await(ctx, "wipes", func(c counts) bool { return c.Wiping+c.Free >= part(b.fleet.servers, underWay) })
	if err != nil {
		return err
	}
	// One that is held up may not say at once that it leads.
	leader := 0
	err = b.fleet.await(ctx, "a manager that leads", func(counts) bool {
		leader = b.meter.leader(ctx)
		return leader != 0
	})
	if err != nil {
		return err
	}
	if err := b.fleet.KillManager(leader - 1); err != nil {
		return err
	}
	if err := b.awaitLeader(ctx, time.Now()); err != nil {
		return err
	}
	if err := b.fleet.awaitFleet(ctx, to); err != nil {
		return err
	}
	return b.fleet.StartManager(ctx, leader-1)
}

// managersKilled kills both while hosts are claimed, and starts them again.
func (b *bench) managersKilled(ctx context.Context, from, to int) error {
	if err := b.fleet.scale(ctx, to); err != nil {
		return err
	}
	if err := b.awaitClaimed(ctx, from+part(to, underWay)); err != nil {
		return err
	}
	began := time.Now()
	for n := range managers {
		if err := b.fleet.KillManager(n); err != nil {
			return err
		}
	}
	if err := b.startManagers(ctx); err != nil {
		return err
	}
	if err := b.awaitLeader(ctx, began); err != nil {
		return err
	}
	return b.fleet.awaitFleet(ctx, to)
}

// awaitLeader waits until a manager leads, and takes down how long none did.
func (b *bench) awaitLeader(ctx context.Context, since time.Time) error {
	err := b.fleet.await(ctx, "a manager that leads", func(counts) bool { return b.meter.leader(ctx) != 0 })
	b.now.NobodyLedSeconds = time.Since(since).Seconds()
	return err
}

func (b *bench) startManagers(ctx context.Context) error {
	for n := range managers {
		if err := b.fleet.StartManager(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
