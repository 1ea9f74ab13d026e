package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/macfleet/macfleet/test/bench/figure"
)

// bench is a run under way.
type bench struct {
	settings settings
	fleet    *fleet
	meter    *meter
	record   record
	// now is the phase that is under way, and heard how many complaints of Macs are in one already.
	now   *phase
	heard int
}

func newBench(s settings, f *fleet, began *figure.Report) *bench {
	return &bench{settings: s, fleet: f, meter: newMeter(f), record: record{
		At: began.At, Commit: began.Commit, Machine: began.Machine,
		Asked: asked{
			LatencyMS: s.latency.Milliseconds(), JitterMS: s.jitter.Milliseconds(), Faults: s.faults,
			ConvergeSeconds: s.converge.Seconds(), TimeScale: s.timeScale, OutageSeconds: s.outage.Seconds(),
		},
	}}
}

// all runs a fleet of each size, with managers that are fresh.
func (b *bench) all(ctx context.Context) error {
	for i, n := range b.settings.sizes {
		if err := b.size(ctx, n, i == len(b.settings.sizes)-1); err != nil {
			return fmt.Errorf("%d hosts: %w", n, err)
		}
	}
	return nil
}

// size brings a fleet up, leaves it at rest, and releases it.
func (b *bench) size(ctx context.Context, n int, last bool) error {
	for _, p := range []struct {
		name string
		act  func(context.Context) error
	}{
		{phaseStart, func(ctx context.Context) error { return b.freshManagers(ctx, n) }},
		{phaseUp, func(ctx context.Context) error { return b.scaleAndAwait(ctx, n) }},
		{phaseRest, func(ctx context.Context) error { return pause(ctx, b.settings.rest) }},
	} {
		if err := b.phase(ctx, p.name, n, p.act); err != nil {
			return err
		}
	}
	if last {
		if err := b.everything(ctx, n); err != nil {
			return err
		}
	}
	return b.phase(ctx, phaseDown, n, func(ctx context.Context) error { return b.scaleAndAwait(ctx, 0) })
}

// freshManagers starts the managers anew, on a pool of so many hosts.
func (b *bench) freshManagers(ctx context.Context, n int) error {
	for i := range managers {
		if err := b.fleet.StopManager(ctx, i); err != nil {
			return err
		}
	}
	if err := b.fleet.grow(ctx, n); err != nil {
		return err
	}
	if err := b.startManagers(ctx); err != nil {
		return err
	}
	if err := b.policy(ctx, n); err != nil {
		return err
	}
	return b.fleet.awaitFleet(ctx, 0)
}

// phase lets one thing happen, and takes down what it took and what is wrong afterwards.
func (b *bench) phase(ctx context.Context, name string, hosts int, act func(context.Context) error) error {
	say("%d hosts: %s", hosts, name)
	before := b.meter.sample(ctx)
	b.now = &phase{Name: name, Hosts: hosts, Begin: before.Seconds}
	err := act(ctx)
	after := b.meter.sample(ctx)
	b.now.End, b.now.Used = after.Seconds, after.since(before.usage)
	for _, s := range b.meter.after(before.Seconds) {
		b.now.PeakMB, b.now.PeakGoroutines = max(b.now.PeakMB, s.MemoryMB), max(b.now.PeakGoroutines, s.Goroutines)
	}
	if err != nil {
		b.wrong([]string{err.Error()})
	} else if err = b.check(ctx); err != nil {
		return err
	}
	b.record.Phases = append(b.record.Phases, *b.now)
	say("%d hosts: %s took %.0f s, %.0f s of processor, %d reads and %d writes of the API, %d vendor calls, at most %.0f MB",
		hosts, name, b.now.Used.Seconds, b.now.Used.Processor, b.now.Used.Reads, b.now.Used.Writes, b.now.Used.Calls, b.now.PeakMB)
	if werr := b.write(); werr != nil && err == nil {
		err = werr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// settles is how long the vendor, the API server and the Macs may still say something else of what has just come to rest.
const settles = time.Minute

// check has everybody tell by himself what there is.
func (b *bench) check(ctx context.Context) error {
	var all []string
	var err error
	for began := time.Now(); time.Since(began) < settles; {
		w, werr := b.fleet.readWhole(ctx)
		all, err = w.atRest(), werr
		if err == nil && len(all) == 0 {
			break
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	heard := b.fleet.macs.complained(b.heard)
	b.heard += len(heard)
	b.wrong(append(all, heard...))
	return nil
}

// wrong takes down what is not as promised.
func (b *bench) wrong(all []string) {
	for _, text := range all {
		say("WRONG: %s", text)
	}
	b.now.Wrong = append(b.now.Wrong, all...)
}

// sound is an error if anything was wrong.
func (b *bench) sound() error {
	wrong := 0
	for _, p := range b.record.Phases {
		wrong += len(p.Wrong)
	}
	if wrong > 0 {
		return fmt.Errorf("%d things were not as promised: see %s", wrong, b.settings.path())
	}
	return nil
}

func (b *bench) write() error {
	b.record.TookSeconds = time.Since(b.record.At).Round(time.Second).Seconds()
	b.record.Samples = slices.Clone(b.meter.after(0))
	return b.record.write(b.settings.path())
}
