package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	hostcontroller "github.com/macfleet/macfleet/internal/controller/host"
	"github.com/macfleet/macfleet/sandbox/cluster"
	sandbox "github.com/macfleet/macfleet/sandbox/scaleway"
)

// claims is how long it takes to claim many hosts for many Machines that wait.
type claims struct {
	Machines int     `json:"machines"`
	Claimed  seconds `json:"allClaimedAfterSeconds"`
	// Shown: every server bears its Machine's name, which stayed for the settle time.
	Shown seconds `json:"allShownAfterSeconds"`
	// CallsAHost is the mean, MostCalls the most that one host took, lists apart.
	CallsAHost float64 `json:"vendorCallsAHost"`
	MostCalls  int     `json:"mostVendorCallsAHost"`
	// Calls of the vendor in all, by their names.
	Calls map[string]int `json:"vendorCalls"`
	// Requests to the API server in all, up to the last claim shown; no Mac answers before.
	Requests requestCounts `json:"requests"`
}

// quiet is what the vendor is asked while nothing changes.
type quiet struct {
	Machines    int            `json:"machines"`
	CallsMinute float64        `json:"vendorCallsAMinute"`
	CallsAList  float64        `json:"vendorCallsAList"`
	Calls       map[string]int `json:"vendorCalls"`
}

// measureMany fills a world once, and takes from it what the vendor is asked
// without Machines, how long their claims take, and what is asked with them.
func measureMany(ctx context.Context, binaries cluster.Binaries, s settings, out *measured) error {
	say("many claims: starting an API server, the controllers and %d hosts", s.hosts)
	w, err := start(ctx, binaries, options{servers: s.hosts, inventory: hostcontroller.DefaultInventoryInterval, settings: s})
	if err != nil {
		return err
	}
	defer w.stop()
	if err := w.awaitPool(ctx, s.hosts); err != nil {
		return err
	}
	say("many claims: all hosts are Available; at rest without Machines")
	if err := w.rest(ctx, 0, s.restRuns, out); err != nil {
		return err
	}
	if out.claims, err = w.claimAll(ctx, s.machines); err != nil {
		return err
	}
	w.switchOn()
	say("many claims: all shown after %.1f s; the loop under one lock", out.claims.Shown)
	if out.peer, err = measurePeer(ctx, s); err != nil {
		return err
	}
	if err := w.awaitRunning(ctx, s.machines); err != nil {
		return err
	}
	say("many claims: all Machines run; at rest with them")
	if err := w.rest(ctx, s.machines, s.restRuns, out); err != nil {
		return err
	}
	out.visits, err = w.measureVisits(ctx)
	return err
}

// claimAll has all Machines wait, and then has them want hosts at one moment. The Macs
// do not answer yet: what it takes to set them up is no part of a claim.
func (w *world) claimAll(ctx context.Context, count int) (*claims, error) {
	if err := w.makeCluster(ctx); err != nil {
		return nil, err
	}
	if err := w.makeMachines(ctx, 0, count); err != nil {
		return nil, err
	}
	if err := w.awaitWaiting(ctx, count); err != nil {
		return nil, err
	}
	say("many claims: %d Machines wait; they may claim now", count)
	seq, before := w.lastCall(), w.requests.since(nil)
	group, groupCtx := errgroup.WithContext(ctx)
	out := &claims{Machines: count}
	began := make(chan time.Time, 1)
	group.Go(func() error { return w.watchClaims(groupCtx, began, out) })
	group.Go(func() error {
		began <- time.Now()
		return w.open(groupCtx)
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out.Requests = w.requests.since(before)
	out.count(w.vendor.Journal(seq))
	return out, nil
}

func (w *world) watchClaims(ctx context.Context, began <-chan time.Time, out *claims) error {
	var start time.Time
	claimed, shown := map[string]bool{}, map[string]bool{}
	err := w.watchHosts(ctx, func(h *infrav1.ScalewayAppleSiliconHost) (done bool) {
		if start.IsZero() {
			start = <-began
		}
		if h.Spec.ClaimRef == nil {
			return false
		}
		claimed[h.Name] = true
		if meta.IsStatusConditionTrue(h.Status.Conditions, infrav1.NameInSyncCondition) {
			shown[h.Name] = true
		}
		if len(claimed) == out.Machines && out.Claimed == 0 {
			out.Claimed = seconds(time.Since(start).Seconds())
			say("many claims: all claimed after %.1f s", out.Claimed)
		}
		out.Shown = seconds(time.Since(start).Seconds())
		return len(shown) == out.Machines
	})
	if err != nil {
		return fmt.Errorf("of %d hosts %d are claimed and %d shown: %w", out.Machines, len(claimed), len(shown), err)
	}
	return nil
}

// count sums the calls up, and those about each host.
func (c *claims) count(journal []sandbox.Entry) {
	c.Calls = map[string]int{}
	hosts := map[string]int{}
	about := 0
	for _, entry := range journal {
		c.Calls[entry.Call]++
		if entry.ServerID != "" {
			hosts[entry.ServerID]++
			about++
			c.MostCalls = max(c.MostCalls, hosts[entry.ServerID])
		}
	}
	c.CallsAHost = float64(about) / float64(c.Machines)
}

func (w *world) lastCall() int64 {
	journal := w.vendor.Journal(0)
	if len(journal) == 0 {
		return 0
	}
	return journal[len(journal)-1].Seq
}

// rest counts what the vendor is asked from the beginning of one list of the
// inventory to that of another.
func (w *world) rest(ctx context.Context, machines, lists int, out *measured) error {
	after := w.lastCall()
	var entries []sandbox.Entry
	err := until(ctx, func() (bool, error) {
		entries = w.vendor.Journal(after)
		return len(beginnings(entries)) > lists, nil
	})
	if err != nil {
		return err
	}
	at := beginnings(entries)
	entries = entries[at[0] : at[lists]+1]
	between := entries[:len(entries)-1]
	passed := entries[len(entries)-1].Time.Sub(entries[0].Time)
	if passed <= 0 {
		return errors.New("the vendor's clock stands still")
	}
	q := quiet{
		Machines: machines, Calls: map[string]int{},
		CallsMinute: float64(len(between)) / passed.Minutes(), CallsAList: float64(len(between)) / float64(lists),
	}
	for _, entry := range between {
		q.Calls[entry.Call]++
	}
	out.rest = append(out.rest, q)
	return nil
}

// beginnings are the indexes of the first pages of lists.
func beginnings(entries []sandbox.Entry) (at []int) {
	for i, entry := range entries {
		if entry.Call == "ListServers" && strings.Contains("&"+entry.Query+"&", "&page=1&") {
			at = append(at, i)
		}
	}
	return at
}
