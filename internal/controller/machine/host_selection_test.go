package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
)

func TestNoHostReasonIsReported(t *testing.T) {
	claimed := poolHost(serverID)
	claimed.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "x", Name: "y", Token: "z"}
	elsewhere := poolHost(serverID)
	elsewhere.Spec.Zone = "fr-par-9"
	for name, c := range map[string]struct {
		host   *infrav1.ScalewayAppleSiliconHost
		change func(core *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine)
		prefix string
		reason string
		says   string
	}{
		"claimed":    {host: claimed, reason: infrav1.ReasonNoAvailableHost, says: "1 claimed"},
		"other zone": {host: elsewhere, reason: infrav1.ReasonNoHostInFailureDomain, says: "1 in another zone"},
		"failure domain first": {host: poolHost(serverID), reason: infrav1.ReasonNoHostInFailureDomain, change: func(core *clusterv1.Machine, _ *infrav1.ScalewayAppleSiliconMachine) {
			core.Spec.FailureDomain = "fr-par-7"
		}},
		"own zone before it": {host: poolHost(serverID), reason: machine.ReasonClaimed, change: func(core *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) {
			core.Spec.FailureDomain, infra.Spec.Zone = "fr-par-7", zone
		}},
		"other type": {host: poolHost(serverID), reason: infrav1.ReasonNoAvailableHost, says: "1 of another type (known: M2-L)", change: func(_ *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) { infra.Spec.Type = "M4-S" }},
		"other OS":   {host: poolHost(serverID), reason: infrav1.ReasonNoAvailableHost, says: "1 with another OS (known: tahoe)", change: func(_ *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) { infra.Spec.OS = "sequoia" }},
		"other labels": {host: poolHost(serverID), reason: infrav1.ReasonNoAvailableHost, says: "1 not matched by the host selector", change: func(_ *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) {
			infra.Spec.HostSelector = &infrav1.HostSelector{MatchLabels: map[string]infrav1.LabelValue{infrav1.LabelChip: "apple-m4"}}
		}},
		"bad selector": {host: poolHost(serverID), reason: machine.ReasonHostSelector, says: "spec.hostSelector", change: func(_ *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) {
			infra.Spec.HostSelector = &infrav1.HostSelector{MatchExpressions: []infrav1.HostSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}},
		"no prefix": {host: poolHost(serverID), prefix: "none", reason: infrav1.ReasonNoAdoptPoolPrefix},
		"no owner":  {host: poolHost(serverID), reason: infrav1.ReasonWaitingForCluster, change: func(_ *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) { infra.OwnerReferences = nil }},
		"profile": {host: poolHost(serverID), reason: infrav1.ReasonUnknownProfile, says: `no MacNodeProfile "typo"; known: builders, testers`, change: func(_ *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) {
			infra.Spec.ProfileRef = &infrav1.ProfileReference{Name: "typo"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := pair("mac-1")
			if c.change != nil {
				c.change(objects[0].(*clusterv1.Machine), objects[1].(*infrav1.ScalewayAppleSiliconMachine))
			}
			w := newWorld(t, append(objects, c.host.DeepCopy(), profile("testers"), profile("builders"))...)
			if c.prefix == "none" {
				w.r.DefaultPoolPrefix = ""
				w.r.wire()
			}
			w.settle("mac-1")
			m := w.machine("mac-1")
			got := slices.IndexFunc(m.Status.Conditions, func(c metav1.Condition) bool { return c.Type == infrav1.HostClaimedCondition })
			if condition := m.Status.Conditions[got]; condition.Reason != c.reason || !strings.Contains(condition.Message, c.says) {
				t.Errorf("HostClaimed = %s %q, want %s %q", condition.Reason, condition.Message, c.reason, c.says)
			}
			if (m.Spec.HostRef != nil) != (c.reason == machine.ReasonClaimed) {
				t.Errorf("hostRef = %+v", m.Spec.HostRef)
			}
		})
	}
}

// A host of another zone is never taken, also where there is no other.
func TestContract_FailureDomainIsHonoured(t *testing.T) {
	const farZone = "fr-par-3"
	near, far := poolHost(serverID), poolHost(otherID)
	far.Name, far.Spec.Zone = host.ObjectName(farZone, otherID), farZone
	for domain, want := range map[string]string{zone: hostName, farZone: far.Name, "fr-par-7": ""} {
		t.Run(domain, func(t *testing.T) {
			objects := pair("mac-1")
			objects[0].(*clusterv1.Machine).Spec.FailureDomain = domain
			w := newWorld(t, append(objects, near.DeepCopy(), far.DeepCopy())...)
			w.settle("mac-1")
			got := ""
			if ref := w.machine("mac-1").Spec.HostRef; ref != nil {
				got = ref.Name
			}
			if got != want {
				t.Errorf("it has the host %q, want %q", got, want)
			}
			if reason := w.reason("mac-1", infrav1.HostClaimedCondition); want == "" && reason != infrav1.ReasonNoHostInFailureDomain {
				t.Errorf("HostClaimed = %s", reason)
			}
		})
	}
}

// A hostRef that a person wrote takes no Mac, and orders none, for an object that no
// Machine owns.
func TestAHostRefWithoutAnOwnerTakesNothing(t *testing.T) {
	for name, ref := range map[string]string{"a host of the pool": hostName, "an order": host.OrderName("mac-1")} {
		t.Run(name, func(t *testing.T) {
			objects := pair("mac-1")
			infra := objects[1].(*infrav1.ScalewayAppleSiliconMachine)
			infra.OwnerReferences, infra.Spec.Type = nil, "M2-L"
			infra.Spec.HostRef = &infrav1.HostReference{Name: ref, ClaimToken: "made-up"}
			w := newWorld(t, append(objects, poolHost(serverID))...)
			w.settle("mac-1")
			hosts := &infrav1.ScalewayAppleSiliconHostList{}
			if err := w.client.List(t.Context(), hosts); err != nil {
				t.Fatal(err)
			}
			if len(hosts.Items) != 1 || hosts.Items[0].Spec.ClaimRef != nil {
				t.Errorf("hosts = %+v", hosts.Items)
			}
			if reason := w.reason("mac-1", infrav1.HostClaimedCondition); reason != infrav1.ReasonWaitingForCluster {
				t.Errorf("HostClaimed = %s", reason)
			}
		})
	}
}

func profile(name string) *infrav1.MacNodeProfile {
	return &infrav1.MacNodeProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// The server of a claim bears the Machine's name: a name of the pool would give
// the Mac away as soon as its Host is rebuilt.
func TestANameOfThePoolIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ machine, own string }{
		"default prefix":                    {machine: poolName + "x7k2p"},
		"own prefix":                        {machine: "builders-1", own: "builders-"},
		"another namespace's prefix":        {machine: "others-x7k2p"},
		"default prefix beside its own one": {machine: poolName + "x7k2p", own: "builders-"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := pair(c.machine)
			objects[1].(*infrav1.ScalewayAppleSiliconMachine).Spec.AdoptPoolPrefix = c.own
			free := poolHost(serverID)
			if c.own != "" {
				free.Status.Server.Name = c.own + serverID
			}
			w := newWorld(t, append(objects, free)...)
			w.r.NamespacePools = map[string][]string{namespace: {"builders-"}, "others": {"others-"}}
			w.r.wire()
			w.settle(c.machine)
			if m := w.machine(c.machine); m.Spec.HostRef != nil || w.reason(c.machine, infrav1.HostClaimedCondition) != machine.ReasonNameInPool {
				t.Errorf("hostRef = %+v, HostClaimed = %s; want none, %s", m.Spec.HostRef, w.reason(c.machine, infrav1.HostClaimedCondition), machine.ReasonNameInPool)
			}
			if h := w.host(hostName); h.Spec.ClaimRef != nil {
				t.Errorf("claimRef = %+v, want none", h.Spec.ClaimRef)
			}
			if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "Warning "+machine.ReasonNameInPool) {
				t.Errorf("events = %s", heard)
			}
		})
	}
}

// A Mac whose Node cannot be made is not taken: a Node's name is a label, too.
func TestANameThatNoNodeMayHaveIsRefused(t *testing.T) {
	for length, want := range map[int]string{63: machine.ReasonClaimed, 64: machine.ReasonNameTooLong} {
		name := strings.Repeat("m", length)
		w := newWorld(t, append(pair(name), poolHost(serverID))...)
		w.settle(name)
		if got, claimed := w.reason(name, infrav1.HostClaimedCondition), w.host(hostName).Spec.ClaimRef != nil; claimed == (want == machine.ReasonNameTooLong) || !claimed && got != want {
			t.Errorf("%d characters: HostClaimed = %s, claimed = %t; want %s", length, got, claimed, want)
		}
	}
}

// An intent from before the default prefix changed is not fulfilled either.
func TestAnIntentOfAPoolNameIsDropped(t *testing.T) {
	free := poolHost(serverID)
	free.Status.Server.Name = "mac-" + serverID
	w := newWorld(t, append(pair("mac-1"), free)...)
	w.visit("mac-1")
	w.visit("mac-1")
	m := w.machine("mac-1")
	m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "early"}
	w.update(m)
	w.r.DefaultPoolPrefix = "mac-"
	w.r.wire()
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.HostRef != nil || w.host(hostName).Spec.ClaimRef != nil || w.reason("mac-1", infrav1.HostClaimedCondition) != machine.ReasonNameInPool {
		t.Errorf("hostRef = %+v, HostClaimed = %s; want none, %s", m.Spec.HostRef, w.reason("mac-1", infrav1.HostClaimedCondition), machine.ReasonNameInPool)
	}
}

func TestWaitingMachinesAreWokenByAFreeHost(t *testing.T) {
	w := newWorld(t, append(append(pair("mac-1"), pair("mac-2")...), poolHost(serverID))...)
	w.settle("mac-1")
	w.settle("mac-2")
	names := func(h *host.Host) []string {
		var out []string
		meant, waiting := w.r.machinesOfHost(t.Context(), nil, h)
		for _, request := range append(meant, waiting...) {
			out = append(out, request.Name)
		}
		return out
	}
	if got := names(w.host(hostName)); !slices.Equal(got, []string{"mac-1"}) {
		t.Errorf("a claimed host wakes %q, want its owner only", got)
	}
	if got := names(poolHost(otherID)); !slices.Equal(got, []string{"mac-2"}) {
		t.Errorf("a free host wakes %q, want the one that waits", got)
	}
}

// What a waiting Machine says follows the pool: a host that is released, taken or gone wakes
// nobody. That asks the vendor nothing, and writes only what is news.
func TestAWaitingMachineSaysWhatIsSo(t *testing.T) {
	w := newWorld(t, append(append(pair("mac-1"), pair("mac-2")...), poolHost(serverID))...)
	w.settle("mac-1")
	if result := w.settle("mac-2"); result.RequeueAfter != leastWaitPoll || !strings.Contains(w.message("mac-2", infrav1.HostClaimedCondition), "1 claimed") {
		t.Fatalf("comes back after %s, HostClaimed = %q", result.RequeueAfter, w.message("mac-2", infrav1.HostClaimedCondition))
	}
	calls, before := len(w.keys.calls), w.countWrites()
	w.clock.SetTime(w.clock.Now().Add(leastWaitPoll))
	if result := w.visit("mac-2"); w.countWrites() != before || result.RequeueAfter != leastWaitPoll {
		t.Errorf("%d writes though nothing has changed, comes back after %s", w.countWrites()-before, result.RequeueAfter)
	}
	w.clock.SetTime(w.clock.Now().Add(leastWaitPoll / 2))
	h := w.host(hostName)
	h.Spec.Release = &infrav1.Release{Token: h.Spec.ClaimRef.Token, Policy: infrav1.Recycle, RequestedAt: metav1.NewMicroTime(w.clock.Now())}
	w.update(h)
	before = w.countWrites()
	if result := w.visit("mac-2"); w.countWrites() != before || result.RequeueAfter != leastWaitPoll/2 {
		t.Errorf("%d writes before its time, comes back after %s", w.countWrites()-before, result.RequeueAfter)
	}
	w.clock.SetTime(w.clock.Now().Add(leastWaitPoll / 2))
	w.settle("mac-2")
	if got := w.message("mac-2", infrav1.HostClaimedCondition); !strings.Contains(got, "1 wiping") {
		t.Errorf("HostClaimed = %q while the Mac is wiped", got)
	}
	w.delete(w.host(hostName))
	w.clock.SetTime(w.clock.Now().Add(leastWaitPoll))
	w.settle("mac-2")
	if got := w.message("mac-2", infrav1.HostClaimedCondition); !strings.Contains(got, "no host is known") {
		t.Errorf("HostClaimed = %q, want what is so now", got)
	}
	if len(w.keys.calls) != calls {
		t.Errorf("the vendor was asked %d times", len(w.keys.calls)-calls)
	}
}

// A crowd says it less often: all together write no more than two messages a second.
func TestACrowdThatWaitsSaysWhyLessOften(t *testing.T) {
	for waiting, want := range map[int]time.Duration{1: 10 * time.Second, 16: 10 * time.Second, 50: 30 * time.Second, 100: time.Minute, 1000: time.Minute} {
		w := newWorld(t)
		for n := range waiting {
			w.r.waitMessages.Set(client.ObjectKey{Name: fmt.Sprintf("mac-%d", n)}, w.clock.Now())
		}
		if got := w.r.claimPhase.waitPeriod(); got != want {
			t.Errorf("%d wait: each says why every %s, want %s", waiting, got, want)
		}
	}
}

// A Machine that has a host is none of those that wait.
func TestWhoHasAHostIsNoLongerCountedAsWaiting(t *testing.T) {
	w := newWorld(t, pair("mac-1")...)
	w.settle("mac-1")
	if n := w.r.waitMessages.Len(); n != 1 {
		t.Fatalf("%d wait, want one", n)
	}
	w.create(poolHost(serverID))
	w.settle("mac-1")
	if n := w.r.waitMessages.Len(); n != 0 || w.machine("mac-1").Spec.HostRef == nil {
		t.Errorf("%d wait, want none: %+v", n, w.machine("mac-1").Spec.HostRef)
	}
}

// Only news wakes Machines, and only those that may use them.
func TestOnlyUsefulMachinesAreWoken(t *testing.T) {
	news := func(change func(h *host.Host)) (before, now *host.Host) {
		before, now = poolHost(otherID), poolHost(otherID)
		change(now)
		return before, now
	}
	for name, c := range map[string]struct {
		machine func(m *infrav1.ScalewayAppleSiliconMachine)
		known   bool
		change  func(h *host.Host)
		woken   bool
	}{
		"becomes known":      {woken: true},
		"nothing new":        {known: true},
		"another type now":   {known: true, change: func(h *host.Host) { h.Status.Server.Type = "M4-S" }, woken: true},
		"another label now":  {known: true, change: func(h *host.Host) { h.Labels = map[string]string{"a": "b"} }, woken: true},
		"taken":              {known: true, change: func(h *host.Host) { h.Spec.ClaimRef = &infrav1.ClaimReference{} }},
		"wants another zone": {machine: func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.Zone = "fr-par-9" }},
		"wants another type": {machine: func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.Type = "M4-S" }},
		"wants another pool": {machine: func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.AdoptPoolPrefix = "spare-" }},
		"orders its own":     {machine: func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.Acquisition = infrav1.Order }},
		"wants another label": {machine: func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Spec.HostSelector = &infrav1.HostSelector{MatchLabels: map[string]infrav1.LabelValue{"a": "c"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := pair("mac-1")
			if c.machine != nil {
				c.machine(objects[1].(*infrav1.ScalewayAppleSiliconMachine))
			}
			if c.change == nil {
				c.change = func(*host.Host) {}
			}
			w := newWorld(t, objects...)
			before, now := news(c.change)
			if !c.known {
				before = nil
			}
			if _, got := w.r.machinesOfHost(t.Context(), before, now); (len(got) == 1) != c.woken {
				t.Errorf("wakes %v, want the Machine: %t", got, c.woken)
			}
		})
	}
}

// Each attempt that finds no host counts, and one that finds one does not.
func TestAttemptsThatFindNoHostAreCounted(t *testing.T) {
	w := newWorld(t, pair("mac-1")...)
	w.settle("mac-1")
	none := testutil.ToFloat64(w.r.metrics.claims.WithLabelValues(claimNoHost))
	if none < 1 {
		t.Errorf("no_host = %v in an empty pool", none)
	}
	w.create(poolHost(serverID))
	w.settle("mac-1")
	if after := testutil.ToFloat64(w.r.metrics.claims.WithLabelValues(claimNoHost)); after != none {
		t.Errorf("no_host = %v, was %v: a host was there", after, none)
	}
	if claimed := testutil.ToFloat64(w.r.metrics.claims.WithLabelValues(claimTaken)); claimed != 1 {
		t.Errorf("claimed = %v", claimed)
	}
}
