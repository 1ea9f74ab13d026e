package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

const claimedPrefix = "tuist-tuist-"

// strays is a world of many hosts, seen once by inventory and reconciler, with a
// sweep that may reclaim.
func strays(t *testing.T, names ...string) (*world, *Sweep) {
	t.Helper()
	w := newWorld(t)
	w.r.ClaimNamePrefix, w.inventory.ClaimNamePrefix = claimedPrefix, claimedPrefix
	w.must(w.client.Create(w.ctx, &infrav1.ScalewayAppleSiliconCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "infra", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}},
		Spec:       infrav1.ScalewayAppleSiliconClusterSpec{Zones: []string{zone}},
	}))
	for i, name := range names {
		w.cloud.Set(cloud.Server{ID: strayID(i), Zone: zone, Name: name, Status: cloud.StatusReady, Delivered: true}, "")
	}
	w.settle(len(names))
	return w, NewSweep(w.r)
}

func strayID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

func strayKey(i int) client.ObjectKey {
	return client.ObjectKey{Name: host.ObjectName(zone, strayID(i))}
}

// settle has the inventory and the reconciler look at all hosts.
func (w *world) settle(n int) {
	w.t.Helper()
	w.inventory.Sweep(w.ctx)
	for i := range n {
		w.reconcileOf(strayKey(i).Name)
	}
}

func (w *world) stray(i int) *host.Host {
	w.t.Helper()
	h := &host.Host{}
	w.must(w.client.Get(w.ctx, strayKey(i), h))
	return h
}

// twice sweeps as often and as long as a host must be seen stray.
func (w *world) twice(s *Sweep) {
	s.Once(w.ctx)
	w.clock.Step(10 * time.Minute)
	w.inventory.Sweep(w.ctx)
	s.Once(w.ctx)
}

// taken are the indices of the hosts whose release the sweep recorded.
func (w *world) taken(n int) (out []int) {
	w.t.Helper()
	for i := range n {
		if release := w.stray(i).Spec.Release; release != nil {
			out = append(out, i)
			if release.Origin != infrav1.OriginReclaim {
				w.t.Errorf("host %d was released by %s", i, release.Origin)
			}
		}
	}
	return out
}

func (w *world) machine(name string, change func(*infrav1.ScalewayAppleSiliconMachine)) {
	w.t.Helper()
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}}
	if change != nil {
		change(m)
	}
	w.must(w.client.Create(w.ctx, m))
}

// wiping is one look at a released host; its reinstall ends once it was seen to start.
func (w *world) wiping(i int) {
	w.t.Helper()
	w.inventory.Sweep(w.ctx)
	if server, _ := w.cloud.Server(strayID(i)); server.Status == cloud.StatusReinstalling && w.stray(i).Spec.Record.Wipe.StartedAt != nil {
		w.cloud.Finish(strayID(i))
	}
	w.reconcileOf(strayKey(i).Name)
	w.clock.Step(5 * time.Second)
}

func TestRequirement001_ReclaimsExactlyTheStrandedHost(t *testing.T) {
	names := []string{
		claimedPrefix + "stranded", "tuist-pool-2", "tuist-claim-pending-3", claimedPrefix + "by-name",
		claimedPrefix + "by-id", "apple-silicon-romantic-1", "acme-other-cluster",
	}
	w, s := strays(t, names...)
	w.machine(claimedPrefix+"by-name", nil) // made before there were hosts: no prefix, no hostRef
	w.machine("renamed", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Status.ServerID = strayID(4) })
	w.cloud.Forget()
	w.twice(s)
	if diff := cmp.Diff([]int{0}, w.taken(len(names))); diff != "" {
		t.Fatal(diff)
	}
	if calls := w.mutations(); len(calls) != 0 {
		t.Errorf("the sweep itself called %v", calls)
	}
	if n := testutil.ToFloat64(w.r.metrics.reclaimed); n != 1 {
		t.Errorf("counted %v reclaimed hosts", n)
	}
	h := w.stray(0)
	if !host.WipeAllowed(h) || h.Spec.Release.PoolPrefix != prefix || h.Spec.ClaimRef.Name != names[0] || h.Spec.ClaimRef.Cluster != "c" ||
		h.Spec.Record.DisturbedAt == nil || !slices.Contains(h.Finalizers, infrav1.HostFinalizer) {
		t.Errorf("got %+v", h.Spec)
	}
	for range 40 {
		w.wiping(0)
	}
	server, _ := w.cloud.Server(strayID(0))
	if server.Name != prefix+strayID(0) || w.stray(0).Status.Phase != infrav1.HostAvailable {
		t.Errorf("not back in the pool: server %+v, phase %s", server, w.stray(0).Status.Phase)
	}
}

func TestRequirement001_AHostAdoptedSinceTheScanIsLeftAlone(t *testing.T) {
	w, s := strays(t, claimedPrefix+"m")
	stale := interceptor.NewClient(w.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if machines, ok := list.(*infrav1.ScalewayAppleSiliconMachineList); ok {
				machines.Items = nil // the cache has not seen it
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	s.Client = stale
	s.Once(w.ctx)
	w.machine(claimedPrefix+"m", nil) // its status bears no server id yet
	w.clock.Step(time.Hour)
	w.inventory.Sweep(w.ctx)
	s.Once(w.ctx)
	if taken := w.taken(1); taken != nil {
		t.Errorf("reclaimed %v", taken)
	}
}

func TestRequirement001_AReclaimedHostIsNotAdoptableBeforeItsWipe(t *testing.T) {
	w, s := strays(t, claimedPrefix+"m")
	w.twice(s)
	wish := host.Requirements{Namespace: "fleet", Name: "next", Zone: zone, PoolPrefix: prefix}
	free := func() bool {
		hosts := &infrav1.ScalewayAppleSiliconHostList{Items: []infrav1.ScalewayAppleSiliconHost{*w.stray(0)}}
		choice, _ := host.Choose(wish, hosts.Items)
		return choice != nil
	}
	w.cloud.OnCall = func(c cloudtest.Call) {
		if c.Server == strayID(0) && free() {
			t.Errorf("free at %s: %+v", c, w.stray(0).Spec.Record.Wipe)
		}
	}
	for range 40 {
		if free() && w.stray(0).Spec.Record.Wipe.ObservedAt == nil {
			t.Fatalf("free without a wipe: %+v", w.stray(0).Spec)
		}
		w.wiping(0)
	}
	if !free() {
		t.Errorf("never free: %+v", w.stray(0))
	}
}

func TestRequirement001_ReportOnlyChangesNothingButCounts(t *testing.T) {
	w, s := strays(t, claimedPrefix+"stranded", "apple-silicon-romantic-1")
	s.ClaimNamePrefix, s.ReportNamePrefix = "", claimedPrefix
	before := w.written()
	w.cloud.Forget()
	for range 3 {
		w.twice(s)
	}
	if w.written() != before || len(w.mutations()) != 0 {
		t.Errorf("%d writes, calls %v", w.written()-before, w.mutations())
	}
	want := `
# HELP scaleway_orphan_servers Servers that are neither in the pool, nor being adopted or released, nor matched by a live Machine; kind stranded: once ours, foreign: named by others.
# TYPE scaleway_orphan_servers gauge
scaleway_orphan_servers{kind="foreign",zone="fr-par-1"} 1
scaleway_orphan_servers{kind="stranded",zone="fr-par-1"} 1
`
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{w.client, func() bool { return true }, s, w.clock})
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "scaleway_orphan_servers"); err != nil {
		t.Error(err)
	}
}

func TestRequirement001_AFailedRecheckEndsTheSweep(t *testing.T) {
	for _, kind := range []string{"Host", "Machine", "Cluster", "Infra", "Node"} {
		t.Run(kind, func(t *testing.T) {
			w, s := strays(t, claimedPrefix+"a", claimedPrefix+"b")
			s.Once(w.ctx)
			w.clock.Step(time.Hour)
			w.inventory.Sweep(w.ctx)
			failing := w.failing(kind)
			s.Reader, s.NodeReader = failing, failing
			s.Once(w.ctx)
			if taken := w.taken(2); taken != nil {
				t.Fatalf("reclaimed %v", taken)
			}
			s.Reader, s.NodeReader = w.client, w.client
			s.Once(w.ctx)
			if taken := w.taken(2); len(taken) != 1 {
				t.Errorf("then reclaimed %v; the storm guard allows one of three", taken)
			}
		})
	}
}

// failing reads everything but one kind.
func (w *world) failing(kind string) client.Client {
	refused := errors.New("refused")
	return interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, cluster := o.(*clusterv1.Cluster); cluster && kind == "Cluster" {
				return refused
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			kinds := map[string]bool{}
			switch list.(type) {
			case *infrav1.ScalewayAppleSiliconHostList:
				kinds["Host"] = true
			case *infrav1.ScalewayAppleSiliconMachineList:
				kinds["Machine"] = true
			case *infrav1.ScalewayAppleSiliconClusterList:
				kinds["Infra"] = true
			case *corev1.NodeList:
				kinds["Node"] = true
			}
			if kinds[kind] {
				return refused
			}
			return c.List(ctx, list, opts...)
		},
	})
}

func TestTheSweepLeavesAloneWhatMayBeInUse(t *testing.T) {
	for name, change := range map[string]func(*world, *Sweep){
		"a Ready Node bears its providerID": func(w *world, _ *Sweep) {
			w.must(w.client.Create(w.ctx, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, strayID(0))},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			}))
		},
		"the Cluster is paused": func(w *world, _ *Sweep) {
			c := &clusterv1.Cluster{}
			w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "c"}, c))
			paused := true
			c.Spec.Paused = &paused
			w.must(w.client.Update(w.ctx, c))
		},
		"the Cluster moved away": func(w *world, _ *Sweep) {
			w.must(w.client.Delete(w.ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "c"}}))
		},
		"no Cluster uses the zone": func(w *world, _ *Sweep) {
			w.must(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "infra"}}))
		},
		"the host is in maintenance": func(w *world, _ *Sweep) {
			h := w.stray(0)
			h.Spec.Maintenance = &infrav1.Maintenance{Reason: "x"}
			w.must(w.client.Update(w.ctx, h))
		},
		"there is no pool": func(_ *world, s *Sweep) { s.DefaultPoolPrefix = "" },
		"a Machine of another namespace has it": func(w *world, _ *Sweep) {
			w.machine(claimedPrefix+"m", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Namespace = "other" })
		},
		"the vendor fails": func(w *world, _ *Sweep) {
			for range 20 {
				w.inventory.health.Observe("x", 0, &cloud.Error{Kind: cloud.KindUnavailable})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := strays(t, claimedPrefix+"m")
			s.Once(w.ctx)
			w.clock.Step(10 * time.Minute)
			w.inventory.Sweep(w.ctx)
			change(w, s)
			s.Once(w.ctx)
			s.Once(w.ctx)
			if taken := w.taken(1); taken != nil {
				t.Errorf("reclaimed %v", taken)
			}
		})
	}
}

func TestAHostMustBeSeenStrayWithoutABreak(t *testing.T) {
	w, s := strays(t, claimedPrefix+"m")
	s.Once(w.ctx)
	w.clock.Step(10 * time.Minute)
	w.machine(claimedPrefix+"m", nil)
	s.Once(w.ctx) // not stray
	w.must(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: claimedPrefix + "m"}}))
	s.Once(w.ctx)
	if taken := w.taken(1); taken != nil {
		t.Fatalf("reclaimed %v at its first sighting", taken)
	}
	w.clock.Step(10 * time.Minute)
	w.inventory.Sweep(w.ctx)
	NewSweep(w.r).Once(w.ctx) // another process has not seen it before
	if taken := w.taken(1); taken != nil {
		t.Fatalf("another process reclaimed %v at once", taken)
	}
	s.Once(w.ctx)
	if taken := w.taken(1); len(taken) != 1 {
		t.Error("never reclaimed")
	}
}

// Who named the server otherwise is at work on it.
func TestAStrayThatIsNamedOtherwiseIsAnotherStray(t *testing.T) {
	w, s := strays(t, claimedPrefix+"m")
	s.Once(w.ctx)
	w.clock.Step(10 * time.Minute)
	w.cloud.Change(strayID(0), func(s *cloud.Server) { s.Name = claimedPrefix + "n" })
	w.settle(1)
	s.Once(w.ctx)
	if taken := w.taken(1); taken != nil {
		t.Fatalf("reclaimed %v at the first sighting of its name", taken)
	}
	w.twice(s)
	if taken := w.taken(1); len(taken) != 1 {
		t.Error("never reclaimed")
	}
}

func TestAStrayThatWasNamedOtherwiseSinceTheScanIsLeftAlone(t *testing.T) {
	w, s := strays(t, claimedPrefix+"m")
	s.Once(w.ctx)
	w.clock.Step(10 * time.Minute)
	w.inventory.Sweep(w.ctx)
	s.Reader = interceptor.NewClient(w.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if hosts, ok := list.(*infrav1.ScalewayAppleSiliconHostList); ok {
				for i := range hosts.Items {
					hosts.Items[i].Status.Server.Name = claimedPrefix + "n" // the cache has not seen it
				}
			}
			return err
		},
	})
	s.Once(w.ctx)
	if taken := w.taken(1); taken != nil {
		t.Errorf("reclaimed %v", taken)
	}
}

// A manager with a watch filter takes no Host back that is another manager's.
func TestTheSweepLeavesHostsOfAnotherFilterAlone(t *testing.T) {
	w, s := strays(t, claimedPrefix+"m", claimedPrefix+"n")
	s.WatchFilter = "mine"
	h := w.stray(1)
	h.Labels = map[string]string{clusterv1.WatchLabel: "mine"}
	w.must(w.client.Update(w.ctx, h))
	w.twice(s)
	if diff := cmp.Diff([]int{1}, w.taken(2)); diff != "" {
		t.Errorf("reclaimed (-want +got):\n%s", diff)
	}
}

func TestTheStormGuardBoundsTheSweep(t *testing.T) {
	names := make([]string, 12)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", claimedPrefix, i)
	}
	w, s := strays(t, names...)
	w.twice(s)
	if taken := w.taken(len(names)); len(taken) != 2 { // a fifth of 13
		t.Errorf("reclaimed %v", taken)
	}
	w.clock.Step(time.Hour + time.Minute)
	w.inventory.Sweep(w.ctx)
	s.Once(w.ctx)
	if taken := w.taken(len(names)); len(taken) != 4 {
		t.Errorf("an hour later %v", taken)
	}
}

func TestOneNamespaceWithoutTheRightsOnlyReports(t *testing.T) {
	w, s := strays(t, claimedPrefix+"m")
	s.Reader = w.failing("Machine")
	w.twice(s)
	if taken := w.taken(1); taken != nil {
		t.Errorf("reclaimed %v", taken)
	}
	if s.reporting == "" {
		t.Error("it does not say so")
	}
}

func TestTheGaugeCountsNoHostOfAnotherNamespacesMachine(t *testing.T) {
	w, s := strays(t, claimedPrefix+"m")
	w.machine(claimedPrefix+"m", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Namespace = "other" })
	one := confined(w.client)
	s.Client = one
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{one, func() bool { return true }, s, clock.RealClock{}})
	gauge := func(stranded int) string {
		return fmt.Sprintf(`
# HELP scaleway_orphan_servers Servers that are neither in the pool, nor being adopted or released, nor matched by a live Machine; kind stranded: once ours, foreign: named by others.
# TYPE scaleway_orphan_servers gauge
scaleway_orphan_servers{kind="foreign",zone="fr-par-1"} 0
scaleway_orphan_servers{kind="stranded",zone="fr-par-1"} %d
`, stranded)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(gauge(1)), "scaleway_orphan_servers"); err != nil {
		t.Fatalf("before the first sweep: %v", err)
	}
	w.twice(s)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(gauge(0)), "scaleway_orphan_servers"); err != nil {
		t.Error(err)
	}
	if taken := w.taken(1); taken != nil {
		t.Errorf("reclaimed %v", taken)
	}
}

func TestTheSweepRunsAtOnceAndAgain(t *testing.T) {
	w, s := strays(t, claimedPrefix+"m")
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error)
	go func() { done <- s.Start(ctx) }()
	for deadline := time.Now().Add(time.Minute); len(w.taken(1)) == 0; {
		if w.clock.HasWaiters() { // it has ended a sweep
			w.inventory.Sweep(w.ctx)
			w.clock.Step(s.ReclaimInterval)
		}
		if time.Now().After(deadline) {
			t.Fatal("never reclaimed")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
