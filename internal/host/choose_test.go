package host_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

func wish(name string) host.Requirements {
	return host.Requirements{Namespace: "fleet", Name: name, Zone: zone, PoolPrefix: prefix}
}

// pool is a number of hosts that can be claimed.
func pool(n int) []infrav1.ScalewayAppleSiliconHost {
	hosts := make([]infrav1.ScalewayAppleSiliconHost, 0, n)
	for i := range n {
		hosts = append(hosts, *pooled(func(h *host.Host) { h.Name = fmt.Sprintf("%s-%04d", zone, i) }))
	}
	return hosts
}

func TestChooseCountsWhyHostsAreSkipped(t *testing.T) {
	hosts := []infrav1.ScalewayAppleSiliconHost{
		*pooled(func(h *host.Host) { h.Spec.Zone = "fr-par-3" }),
		*pooled(func(h *host.Host) { h.Spec.Zone = "fr-par-3" }),
		*pooled(func(h *host.Host) { h.Status.Server.Type = "M4-S" }),
		*pooled(func(h *host.Host) { h.Status.Server.OSFamily = "sequoia" }),
		*pooled(claimed), *pooled(wiping), *pooled(status(cloud.StatusReinstalling)), *pooled(released),
		*pooled(named("other-" + serverID)), *pooled(named("apple-silicon-x")), *pooled(named("")),
		*pooled(func(h *host.Host) { h.Spec.Record.Wipe.RequiredSince = at(1) }),
	}
	w := wish("m")
	w.Type, w.OS = "M2-L", "tahoe"
	choice, skipped := host.Choose(w, hosts)
	if choice != nil {
		t.Fatalf("chose %s", choice.Name)
	}
	want := host.Skipped{
		host.SkipZone: 2, host.SkipType: 1, host.SkipOS: 1, host.SkipClaimed: 1, host.SkipWiping: 3,
		host.SkipNotInPool: 2, host.SkipUnseen: 1, host.SkipDirty: 1,
	}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	message := "no available host: 3 wiping, 2 in another zone, 2 not in the pool, 1 claimed, 1 not seen yet, " +
		"1 not wiped since the last claim, 1 of another type (known: M2-L, M4-S), 1 with another OS (known: sequoia, tahoe)"
	if got := skipped.Message(w, hosts); got != message {
		t.Errorf("message %q", got)
	}
}

func TestChooseWithoutHostsOrPool(t *testing.T) {
	choice, skipped := host.Choose(wish("m"), nil)
	if choice != nil || skipped.Message(wish("m"), nil) != "no available host: no host is known" {
		t.Errorf("chose %v: %s", choice, skipped)
	}
	w := wish("m")
	w.PoolPrefix = ""
	if choice, skipped := host.Choose(w, pool(1)); choice != nil || !skipped.Only(host.SkipNotInPool) {
		t.Errorf("without a pool prefix: chose %v, skipped %v", choice, skipped)
	}
}

func TestChooseDependsOnTheMachineNotOnTheOrder(t *testing.T) {
	hosts := pool(20)
	chosen := func() string {
		choice, skipped := host.Choose(wish("m-7"), hosts)
		if len(skipped) != 0 {
			t.Fatalf("skipped %v", skipped)
		}
		return choice.Name
	}
	first := chosen()
	slices.Reverse(hosts)
	if again := chosen(); again != first {
		t.Errorf("chose %s, and in another order %s", first, again)
	}
	// Taking away hosts that were not chosen changes nothing.
	hosts = slices.DeleteFunc(hosts, func(h infrav1.ScalewayAppleSiliconHost) bool { return h.Name > zone+"-0009" && h.Name != first })
	if again := chosen(); again != first {
		t.Errorf("chose %s, and among fewer %s", first, again)
	}
}

// A host's history counts more than its turn: fewest recent failures first, then
// longest idle, in days.
func TestChooseKnowsTheHistory(t *testing.T) {
	week := 7 * 24 * time.Hour
	failed := func(ago ...time.Duration) func(*host.Host) {
		return func(h *host.Host) {
			for _, d := range ago {
				h.Spec.Failures.Recent = append(h.Spec.Failures.Recent, infrav1.Failure{Time: metav1.NewTime(noon().Add(-d)), Reason: "x"})
			}
		}
	}
	wiped := func(ago time.Duration) func(*host.Host) {
		return func(h *host.Host) {
			at := metav1.NewMicroTime(noon().Add(-ago))
			h.Spec.Record.Wipe.ObservedAt = &at
		}
	}
	for name, row := range map[string]struct{ better, worse []func(*host.Host) }{
		"fewer failures":         {[]func(*host.Host){failed(time.Hour)}, []func(*host.Host){failed(time.Hour, time.Hour)}},
		"failures before idling": {[]func(*host.Host){wiped(time.Hour)}, []func(*host.Host){wiped(72 * time.Hour), failed(time.Hour)}},
		"old failures are none":  {[]func(*host.Host){failed(week+1, week+2), wiped(48 * time.Hour)}, []func(*host.Host){wiped(time.Hour)}},
		"longer idle":            {[]func(*host.Host){wiped(25 * time.Hour)}, []func(*host.Host){wiped(23 * time.Hour)}},
		"a failure of the week":  {nil, []func(*host.Host){failed(week - time.Second)}},
		"never used, long known": {nil, []func(*host.Host){wiped(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range 20 { // the draw must not decide
				better, worse := pooled(row.better...), pooled(row.worse...)
				better.Name, worse.Name = "better", "worse"
				w := wish(fmt.Sprintf("m-%d", i))
				w.Now = noon()
				if choice, _ := host.Choose(w, []infrav1.ScalewayAppleSiliconHost{*worse, *better}); choice.Name != "better" {
					t.Fatalf("m-%d took the worse one", i)
				}
			}
		})
	}
}

// Hosts that have been idle for days are equals, or all Machines would run at one.
func TestChooseSpreadsOverLongIdleHosts(t *testing.T) {
	hosts := pool(20)
	for i := range hosts {
		at := metav1.NewMicroTime(noon().Add(-time.Duration(72+i) * time.Hour))
		hosts[i].Spec.Record.Wipe.ObservedAt = &at
	}
	chosen := map[string]bool{}
	for i := range 100 {
		w := wish(fmt.Sprintf("m-%d", i))
		w.Now = noon()
		choice, _ := host.Choose(w, hosts)
		chosen[choice.Name] = true
	}
	if len(chosen) < 15 {
		t.Errorf("100 Machines prefer only %d of 20 hosts", len(chosen))
	}
}

func TestChooseBySelector(t *testing.T) {
	w := wish("m")
	w.Selector = labels.SelectorFromSet(labels.Set{infrav1.LabelChip: "apple-m4"})
	fits := pooled(func(h *host.Host) { h.Labels = map[string]string{infrav1.LabelChip: "apple-m4"}; h.Name = "fits" })
	choice, skipped := host.Choose(w, []infrav1.ScalewayAppleSiliconHost{*pooled(), *fits})
	if choice == nil || choice.Name != "fits" || !skipped.Only(host.SkipLabels) {
		t.Errorf("chose %v, skipped %v", choice, skipped)
	}
	if host.Fits(w, pooled()) || !host.Fits(w, fits) {
		t.Error("Fits disagrees with Choose")
	}
}

func BenchmarkChoose(b *testing.B) {
	hosts, w := pool(1000), wish("fleet-abcde-fghij")
	w.Now = noon()
	b.ReportAllocs()
	for b.Loop() {
		if choice, _ := host.Choose(w, hosts); choice == nil {
			b.Fatal("no host")
		}
	}
}

func TestChooseByWatchFilter(t *testing.T) {
	w := wish("m")
	w.WatchFilter = "mine"
	labelled := func(value string) host.Host {
		return *pooled(func(h *host.Host) { h.Labels = map[string]string{clusterv1.WatchLabel: value}; h.Name = value })
	}
	choice, skipped := host.Choose(w, []host.Host{*pooled(), labelled("another"), labelled("mine")})
	if choice == nil || choice.Name != "mine" || !skipped.Only(host.SkipFilter) {
		t.Errorf("chose %v, skipped %v", choice, skipped)
	}
}

func TestChooseSpreadsMachines(t *testing.T) {
	hosts := pool(20)
	chosen := map[string]int{}
	for i := range 200 {
		choice, _ := host.Choose(wish(fmt.Sprintf("fleet-abcde-%04d", i)), hosts)
		chosen[choice.Name]++
	}
	for name, n := range chosen {
		if n > 30 { // 10 is the mean
			t.Errorf("%d of 200 Machines run at %s", n, name)
		}
	}
	if len(chosen) < 18 {
		t.Errorf("200 Machines prefer only %d of 20 hosts", len(chosen))
	}
}
