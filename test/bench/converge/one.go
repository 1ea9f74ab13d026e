package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/test/bench/figure"
)

type secret string

func (s secret) Reveal() string { return string(s) }

// waits are the steps that wait for macOS: for a session, for a password that may
// be sealed, for processes that must stay.
func waits() []string { return []string{"session", "launchd", "proof"} }

// work is what was done to a Mac once.
type work struct {
	traffic
	took time.Duration
	// waited of these: in steps that wait for macOS.
	waited time.Duration
}

// works are those of one run after the other: fresh Macs, and looks at those that are as they should be.
type works struct{ fresh, looks []work }

func measureOne(ctx context.Context, s settings, report *figure.Report) error {
	dir, err := os.MkdirTemp("", "mfbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := openWorkshop(ctx, dir)
	if err != nil {
		return err
	}
	a, err := findAnsible(ctx, dir)
	if err != nil {
		say("nothing is measured beside converge: %v", err)
	}
	var ours, peers works
	for range s.runs {
		if err := w.pair(ctx, s, a, &ours, &peers); err != nil {
			return err
		}
	}
	if a != nil {
		report.Peer, report.Notes = a.version, a.notes()
	}
	tell(report, s, ours, peers)
	return nil
}

// pair makes one fresh Mac a node, and then another by Ansible, where there is one.
func (w *workshop) pair(ctx context.Context, s settings, a *player, ours, peers *works) error {
	p, err := w.admit(ctx, s)
	if err != nil {
		return err
	}
	defer p.discharge(ctx)
	if err := p.converge(ctx, s, ours); err != nil || a == nil {
		return err
	}
	if err := a.learn(p); err != nil {
		return err
	}
	another, err := w.admit(ctx, s)
	if err != nil {
		return err
	}
	defer another.discharge(ctx)
	return a.make(ctx, s, another, peers)
}

// converge makes the Mac a node, and looks at it again.
func (p *patient) converge(ctx context.Context, s settings, ours *works) error {
	say("converging a fresh Mac")
	fresh, err := p.measure(func() (time.Duration, error) { return p.fresh(ctx) })
	if err != nil {
		return err
	}
	ours.fresh = append(ours.fresh, fresh)
	for range s.looks {
		look, err := p.measure(func() (time.Duration, error) { return 0, p.again(ctx) })
		if err != nil {
			return err
		}
		ours.looks = append(ours.looks, look)
	}
	return nil
}

// measure is what some work takes, and of it the waits that it tells of.
func (p *patient) measure(do func() (waited time.Duration, err error)) (work, error) {
	before, began := p.traffic(), time.Now()
	waited, err := do()
	return work{took: time.Since(began), waited: waited, traffic: p.traffic().since(before)}, err
}

func (p *patient) dial(ctx context.Context) (*remote.Session, error) {
	return remote.Dial(ctx, remote.Target{
		Address: "127.0.0.1", Port: p.way.port(), User: "m1", Key: p.key, Pin: p.pin,
		FirstUse: func(_ context.Context, shown remote.Pin) error { p.pin = shown; return nil },
	})
}

func (p *patient) desired() document.Desired {
	return document.Desired{
		Host: document.Host{
			Name: "ci-bench", ProviderID: "scw-applesilicon://fr-par-1/6ba7b810-9dad-41d1-80b4-00c04fd430c8", Epoch: 1,
			User: "m1", Address: "127.0.0.1", Zone: "fr-par-1", ServerType: "M2-M",
		},
		Agent:   document.Agent{SHA256: p.build.SHA256, Version: "v0.0.0-bench"},
		Node:    document.Node{MaxVMs: 2},
		Mac:     document.Mac{AutoLogin: true, Network: document.Network{Subnet: document.DefaultSubnet, DenyPrivate: true}},
		SSHKeys: []string{p.authorized()},
		Secrets: &document.Secrets{ConsolePassword: password},

		UpgradeKey: p.fleet.Public().(ed25519.PublicKey),
	}
}

func (p *patient) signer() *document.Signer {
	return document.NewSigner(p.fleet, p.desired().Host, time.Now)
}

// fresh makes the Mac a node for the first time.
func (p *patient) fresh(ctx context.Context) (waited time.Duration, err error) {
	session, err := p.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer session.Close() //nolint:errcheck // it is done with
	if _, err := session.Probe(ctx); err != nil {
		return 0, err
	}
	if err := session.Grant(ctx, secret(password)); err != nil {
		return 0, err
	}
	if _, err := session.Receive(ctx, p.build); err != nil {
		return 0, err
	}
	report, err := session.Converge(ctx, p.build.SHA256, p.desired(), p.signer())
	if err != nil {
		return 0, err
	}
	for _, step := range report.Steps {
		say("  %-12s %-9s %5d ms", step.Name, step.Outcome, step.Millis)
	}
	return waitedIn(report), nil
}

func waitedIn(r document.Report) time.Duration {
	var all time.Duration
	for _, step := range r.Steps {
		for _, name := range waits() {
			if step.Name == name {
				all += time.Duration(step.Millis) * time.Millisecond
			}
		}
	}
	return all
}

// again looks at a Mac that is as it should be.
func (p *patient) again(ctx context.Context) error {
	session, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer session.Close() //nolint:errcheck // it is done with
	d := p.desired()
	d.Secrets = nil
	report, err := session.ConvergeInstalled(ctx, d, p.signer())
	if err != nil {
		return err
	}
	if report.Exit != document.ExitUnchanged {
		return errors.New("a converged Mac was changed")
	}
	return nil
}

// of takes one value of each.
func of(all []work, value func(work) float64) []float64 {
	var values []float64
	for _, w := range all {
		values = append(values, value(w))
	}
	return values
}

func executions(w work) float64   { return float64(w.executions) }
func megabytes(w work) float64    { return float64(w.up+w.down) / 1e6 }
func kilobytes(w work) float64    { return megabytes(w) * 1000 }
func seconds(w work) float64      { return w.took.Seconds() }
func withoutWaits(w work) float64 { return (w.took - w.waited).Seconds() }

// tell puts into a report what was measured.
func tell(r *figure.Report, s settings, ours, peers works) {
	r.Settings = fmt.Sprintf("a round trip takes %s; %d fresh Macs, %d looks at each", s.rtt, s.runs, s.looks)
	for _, row := range []struct {
		name, unit  string
		ours, peers []float64
		goals       []figure.Goal
		// ratio is asked for beside Ansible alone.
		ratio float64
	}{
		{"fresh Mac: SSH executions until the proof reboot", "", of(ours.fresh, executions), of(peers.fresh, executions), []figure.Goal{figure.AtMost(4)}, 0},
		{"fresh Mac: bytes on the wire", "MB", of(ours.fresh, megabytes), of(peers.fresh, megabytes), []figure.Goal{figure.AtMost(15)}, 0.25},
		{"fresh Mac: time", "s", of(ours.fresh, seconds), nil, nil, 0},
		{"fresh Mac: time without the steps that wait for macOS", "s", of(ours.fresh, withoutWaits), of(peers.fresh, withoutWaits), []figure.Goal{figure.AtMost(10)}, 0.1},
		{"Mac that is as it should be: SSH executions", "", of(ours.looks, executions), of(peers.looks, executions), []figure.Goal{figure.AtMost(1)}, 0},
		{"Mac that is as it should be: bytes on the wire", "kB", of(ours.looks, kilobytes), of(peers.looks, kilobytes), nil, 0},
		{"Mac that is as it should be: time, with the connection", "s", of(ours.looks, seconds), of(peers.looks, seconds), []figure.Goal{figure.AtMost(1)}, 0},
	} {
		if len(row.peers) == 0 {
			r.Add(figure.New(row.name, row.unit, figure.Of(row.ours...), row.goals...))
			continue
		}
		if row.ratio > 0 {
			row.goals = append(row.goals, figure.AtMostTimes(row.ratio))
		}
		r.Add(figure.Beside(row.name, row.unit, figure.Of(row.ours...), figure.Of(row.peers...), figure.Ratios(row.ours, row.peers), row.goals...))
	}
}
