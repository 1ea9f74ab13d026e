package machine

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

func TestClaimTakesAnAvailableHost(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.settle("mac-1")
	m, h := w.machine("mac-1"), w.host(hostName)
	if m.Spec.HostRef == nil || !host.HoldsClaim(h, m.Spec.HostRef.ClaimToken) {
		t.Fatalf("hostRef = %+v, claimRef = %+v: want one token on both", m.Spec.HostRef, h.Spec.ClaimRef)
	}
	claim := h.Spec.ClaimRef
	if claim.Cluster != "macs" || claim.Namespace != namespace || claim.Name != "mac-1" {
		t.Errorf("claimRef = %+v", claim)
	}
	record := h.Spec.Record
	if record.Wipe.RequiredSince == nil || record.InstallEpoch != 1 || record.Bootstrap.ClaimToken != claim.Token {
		t.Errorf("record = %+v, want the disk marked as owned, and a first epoch", record)
	}
	if m.Spec.ProviderID != "" || m.Status.Initialization.Provisioned != nil {
		t.Error("a claim alone does not provision")
	}
	if m.Status.HostName != hostName || m.Status.ServerID != serverID || m.Status.Phase != phaseClaimed {
		t.Errorf("status = %+v", m.Status)
	}
	if heard := w.heard(); len(heard) != 1 || !strings.HasPrefix(heard[0], "Normal Claimed") {
		t.Errorf("events = %q, want one", heard)
	}
}

func TestFinalizerComesFirst(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.settle("mac-1")
	w.mu.Lock()
	defer w.mu.Unlock()
	finalizer := slices.Index(w.writes, "patch mac-1")
	claim := slices.Index(w.writes, "update "+hostName)
	key := slices.Index(w.writes, "create builders-ssh")
	if finalizer < 0 || finalizer > key || key > claim {
		t.Errorf("writes = %q, want the finalizer, then the fleet's key, then the claim", w.writes)
	}
}

// intrudingReader runs something after the first read of a host, before whoever
// read it can act on it.
type intrudingReader struct {
	client.Reader
	intrude func()
}

func (r *intrudingReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	if _, is := o.(*infrav1.ScalewayAppleSiliconHost); is && r.intrude != nil {
		intrude := r.intrude
		r.intrude = nil
		intrude()
	}
	return err
}

// Two managers read one free host; the second claims it while the first is about
// to. A claim written without the resourceVersion that was read would overwrite
// the second's, and two Machines would believe in one Mac.
func TestAClaimFromAStaleReadLoses(t *testing.T) {
	w := newWorld(t, append(append(pair("mac-1"), pair("mac-2")...), poolHost(serverID))...)
	for _, name := range []string{"mac-1", "mac-2"} {
		w.visit(name) // Paused condition
		w.visit(name) // finalizer
	}
	reader := &intrudingReader{Reader: w.client}
	first, second := w.reconciler(reader), w.reconciler(w.client)
	reconcile := func(r *Reconciler, name string) {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}); err != nil {
			t.Errorf("reconciling %s: %v", name, err)
		}
	}
	reader.intrude = func() { reconcile(second, "mac-2") }
	reconcile(first, "mac-1")

	winner := w.machine("mac-2")
	if h := w.host(hostName); winner.Spec.HostRef == nil || !host.HoldsClaim(h, winner.Spec.HostRef.ClaimToken) {
		t.Fatalf("claimRef = %+v, want mac-2's: the stale write went through", h.Spec.ClaimRef)
	}
	if got := w.reason("mac-1", infrav1.HostClaimedCondition); got != infrav1.ReasonClaimConflict {
		t.Errorf("mac-1: HostClaimed = %s, want %s", got, infrav1.ReasonClaimConflict)
	}
	w.settle("mac-1")
	if loser := w.machine("mac-1"); loser.Spec.HostRef != nil || w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonNoAvailableHost {
		t.Errorf("mac-1: hostRef = %+v, want none once the host is seen to be another's", loser.Spec.HostRef)
	}
}

// Two managers work for one Machine, as without leader election or around a
// change of leaders: the second claims the host for the same intent. The first
// must not take its lost race for a lost host and drop the intent, or the host
// would be claimed by a token that nobody has.
func TestATwinsClaimIsOurs(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.visit("mac-1")
	w.visit("mac-1")
	reader := &intrudingReader{Reader: w.client}
	first, second := w.reconciler(reader), w.reconciler(w.client)
	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}}
	reader.intrude = func() {
		if _, err := second.Reconcile(t.Context(), request); err != nil {
			t.Errorf("the twin: %v", err)
		}
	}
	if _, err := first.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	w.settle("mac-1")
	if m, h := w.machine("mac-1"), w.host(hostName); m.Spec.HostRef == nil || !host.HoldsClaim(h, m.Spec.HostRef.ClaimToken) {
		t.Errorf("hostRef = %+v, claimRef = %+v: want one token on both", m.Spec.HostRef, h.Spec.ClaimRef)
	}
}

// A manager with an old copy of the Machine must not claim with a token that was
// dropped meanwhile.
func TestADroppedIntentClaimsNothing(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.visit("mac-1")
	w.visit("mac-1")
	reader := &intrudingReader{Reader: w.client}
	r := w.reconciler(reader)
	reader.intrude = func() {
		m := w.machine("mac-1")
		m.Spec.HostRef = nil
		w.update(m)
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}}); err != nil {
		t.Fatal(err)
	}
	if h := w.host(hostName); h.Spec.ClaimRef != nil {
		t.Errorf("claimRef = %+v, want none", h.Spec.ClaimRef)
	}
}

func TestEachIntentHasItsOwnToken(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.visit("mac-1")
	w.visit("mac-1")
	var tokens []string
	for range 3 {
		reader := &intrudingReader{Reader: w.client}
		reader.intrude = func() { // somebody else is faster
			h := w.host(hostName)
			h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "x", Name: "y", Token: "z"}
			w.update(h)
		}
		if _, err := w.reconciler(reader).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}}); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, w.machine("mac-1").Spec.HostRef.ClaimToken)
		w.settle("mac-1") // sees the foreign token, drops the intent
		h := w.host(hostName)
		h.Spec.ClaimRef = nil
		w.update(h)
	}
	slices.Sort(tokens)
	if len(slices.Compact(tokens)) != 3 {
		t.Errorf("tokens = %q, want three different ones", tokens)
	}
}

// Two managers choose for one Machine at once. Were the later intent written over
// the earlier, the host claimed for that would belong to a token that nobody has.
func TestAnIntentIsNotWrittenOverAnother(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID), poolHost(otherID))...)
	w.visit("mac-1")
	w.visit("mac-1")
	second := w.reconciler(w.client)
	key := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}}
	w.once(func(verb string, o client.Object) bool {
		m, is := o.(*infrav1.ScalewayAppleSiliconMachine)
		return is && verb == "patch" && m.Spec.HostRef != nil
	}, func() {
		if _, err := second.Reconcile(t.Context(), key); err != nil {
			t.Errorf("the other manager: %v", err)
		}
	})
	_, _ = w.r.Reconcile(t.Context(), key)
	w.settle("mac-1")
	m, claims := w.machine("mac-1"), 0
	for _, id := range []string{serverID, otherID} {
		h := w.host(host.ObjectName(zone, id))
		if h.Spec.ClaimRef == nil {
			continue
		}
		claims++
		if m.Spec.HostRef == nil || !host.HoldsClaim(h, m.Spec.HostRef.ClaimToken) {
			t.Errorf("hostRef = %+v, claimRef = %+v: want one token on both", m.Spec.HostRef, h.Spec.ClaimRef)
		}
	}
	if claims != 1 {
		t.Errorf("%d hosts are claimed, want one", claims)
	}
}

// The answer to a claim may be lost after it was written: the intent must stand,
// or the host is claimed by a token that nobody has.
func TestALostAnswerKeepsTheIntent(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.visit("mac-1")
	w.visit("mac-1")
	fails := true
	w.lose = func(_ string, object client.Object) error {
		if _, is := object.(*host.Host); is && fails {
			fails = false
			return errPlain
		}
		return nil
	}
	key := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}}
	if _, err := w.r.Reconcile(t.Context(), key); err == nil {
		t.Fatal("the failed write is not reported")
	}
	before := w.machine("mac-1").Spec.HostRef
	if before == nil || !host.HoldsClaim(w.host(hostName), before.ClaimToken) {
		t.Fatalf("hostRef = %+v, want the claim written whose answer was lost", before)
	}
	w.settle("mac-1")
	after := w.machine("mac-1").Spec.HostRef
	if before == nil || after == nil || before.ClaimToken != after.ClaimToken {
		t.Errorf("hostRef before = %+v, after = %+v; want the same token", before, after)
	}
}

func TestNoHost(t *testing.T) {
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
		"own zone before it": {host: poolHost(serverID), reason: reasonClaimed, change: func(core *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) {
			core.Spec.FailureDomain, infra.Spec.Zone = "fr-par-7", zone
		}},
		"other type": {host: poolHost(serverID), reason: infrav1.ReasonNoAvailableHost, says: "1 of another type (known: M2-L)", change: func(_ *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) { infra.Spec.Type = "M4-S" }},
		"other OS":   {host: poolHost(serverID), reason: infrav1.ReasonNoAvailableHost, says: "1 with another OS (known: tahoe)", change: func(_ *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) { infra.Spec.OS = "sequoia" }},
		"other labels": {host: poolHost(serverID), reason: infrav1.ReasonNoAvailableHost, says: "1 not matched by the host selector", change: func(_ *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) {
			infra.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{infrav1.LabelChip: "apple-m4"}}
		}},
		"bad selector": {host: poolHost(serverID), reason: reasonHostSelector, says: "spec.hostSelector", change: func(_ *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) {
			infra.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
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
			}
			w.settle("mac-1")
			m := w.machine("mac-1")
			got := slices.IndexFunc(m.Status.Conditions, func(c metav1.Condition) bool { return c.Type == infrav1.HostClaimedCondition })
			if condition := m.Status.Conditions[got]; condition.Reason != c.reason || !strings.Contains(condition.Message, c.says) {
				t.Errorf("HostClaimed = %s %q, want %s %q", condition.Reason, condition.Message, c.reason, c.says)
			}
			if (m.Spec.HostRef != nil) != (c.reason == reasonClaimed) {
				t.Errorf("hostRef = %+v", m.Spec.HostRef)
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
			w.settle(c.machine)
			if m := w.machine(c.machine); m.Spec.HostRef != nil || w.reason(c.machine, infrav1.HostClaimedCondition) != reasonNameInPool {
				t.Errorf("hostRef = %+v, HostClaimed = %s; want none, %s", m.Spec.HostRef, w.reason(c.machine, infrav1.HostClaimedCondition), reasonNameInPool)
			}
			if h := w.host(hostName); h.Spec.ClaimRef != nil {
				t.Errorf("claimRef = %+v, want none", h.Spec.ClaimRef)
			}
			if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "Warning "+reasonNameInPool) {
				t.Errorf("events = %s", heard)
			}
		})
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
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.HostRef != nil || w.host(hostName).Spec.ClaimRef != nil || w.reason("mac-1", infrav1.HostClaimedCondition) != reasonNameInPool {
		t.Errorf("hostRef = %+v, HostClaimed = %s; want none, %s", m.Spec.HostRef, w.reason("mac-1", infrav1.HostClaimedCondition), reasonNameInPool)
	}
}

func TestWaitingMachinesAreWokenByAFreeHost(t *testing.T) {
	w := newWorld(t, append(append(pair("mac-1"), pair("mac-2")...), poolHost(serverID))...)
	w.settle("mac-1")
	w.settle("mac-2")
	names := func(h *host.Host) []string {
		var out []string
		meant, waiting := w.r.ofHost(t.Context(), nil, h)
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

// What a waiting Machine says is no older than a minute: a host that is taken or
// gone wakes nobody. That asks the vendor nothing, and writes only what is news.
func TestAWaitingMachineSaysWhatIsSo(t *testing.T) {
	w := newWorld(t, append(append(pair("mac-1"), pair("mac-2")...), poolHost(serverID))...)
	w.settle("mac-1")
	if result := w.settle("mac-2"); result.RequeueAfter != waitPoll || !strings.Contains(w.message("mac-2", infrav1.HostClaimedCondition), "1 claimed") {
		t.Fatalf("comes back after %s, HostClaimed = %q", result.RequeueAfter, w.message("mac-2", infrav1.HostClaimedCondition))
	}
	calls, before := len(w.keys.calls), w.countWrites()
	w.clock.SetTime(w.clock.Now().Add(waitPoll))
	if result := w.visit("mac-2"); w.countWrites() != before || result.RequeueAfter != waitPoll {
		t.Errorf("%d writes though nothing has changed, comes back after %s", w.countWrites()-before, result.RequeueAfter)
	}
	w.delete(w.host(hostName))
	w.clock.SetTime(w.clock.Now().Add(waitPoll))
	w.settle("mac-2")
	if got := w.message("mac-2", infrav1.HostClaimedCondition); !strings.Contains(got, "no host is known") {
		t.Errorf("HostClaimed = %q, want what is so now", got)
	}
	if len(w.keys.calls) != calls {
		t.Errorf("the vendor was asked %d times", len(w.keys.calls)-calls)
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
			m.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "c"}}
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
			if _, got := w.r.ofHost(t.Context(), before, now); (len(got) == 1) != c.woken {
				t.Errorf("wakes %v, want the Machine: %t", got, c.woken)
			}
		})
	}
}

func TestAPausedClusterClaimsNothing(t *testing.T) {
	for name, pause := range map[string]func(w *world){
		"Cluster": func(w *world) {
			c := cluster()
			w.get(client.ObjectKeyFromObject(c), c)
			c.Spec.Paused = ptr.To(true)
			w.update(c)
		},
		"annotation": func(w *world) {
			m := w.machine("mac-1")
			m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			w.update(m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
			pause(w)
			w.settle("mac-1")
			if m := w.machine("mac-1"); m.Spec.HostRef != nil || len(m.Finalizers) != 0 || w.reason("mac-1", "Paused") != clusterv1.PausedReason {
				t.Errorf("hostRef = %+v, finalizers = %q, Paused = %s", m.Spec.HostRef, m.Finalizers, w.reason("mac-1", "Paused"))
			}
		})
	}
}

func TestWatchFilter(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.r.WatchFilter = "mine"
	w.settle("mac-1")
	if w.countWrites() != 0 {
		t.Errorf("writes = %q, want none for an object of another manager", w.writes)
	}
}

// The Host was deleted and rebuilt: its server bears the Machine's name. The
// claim comes back with the Machine's token and what its Secret remembers.
func TestARebuiltHostIsClaimedAgain(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	before := w.host(hostName)
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	w.delete(before)
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.HostClaimedCondition); got != infrav1.ReasonClaiming {
		t.Errorf("without a Host: HostClaimed = %s, want %s", got, infrav1.ReasonClaiming)
	}
	rebuilt := poolHost(serverID)
	rebuilt.Status.Server.Name = "mac-1"
	rebuilt.Status.Phase = infrav1.HostDiscovered
	w.create(rebuilt)
	w.settle("mac-1")
	after := w.host(hostName)
	if !host.HoldsClaim(after, token) {
		t.Fatalf("claimRef = %+v, want the Machine's token", after.Spec.ClaimRef)
	}
	record, was := after.Spec.Record, before.Spec.Record
	if record.InstallEpoch != was.InstallEpoch || record.HostKey == nil || *record.HostKey != *was.HostKey || len(record.PasswordAttempts) != len(was.PasswordAttempts) {
		t.Errorf("record = %+v, want epoch, pin and attempts of %+v", record, was)
	}
	if record.Wipe.RequiredSince == nil {
		t.Error("the rebuilt host counts as clean")
	}
}

func TestAHostNamedByAnotherIsGivenUp(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.settle("mac-1")
	h := w.host(hostName)
	h.Status.Conditions = []metav1.Condition{{Type: infrav1.NameInSyncCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonChangedByOther, LastTransitionTime: metav1.Now()}}
	h.Status.Server.Name = "theirs"
	h.Status.Phase = infrav1.HostClaimed
	w.updateStatus(h)
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.HostRef != nil {
		t.Errorf("hostRef = %+v, want none", m.Spec.HostRef)
	}
	if after := w.host(hostName); after.Spec.ClaimRef != nil || after.Spec.Release != nil {
		t.Errorf("claimRef = %+v, release = %+v: want both empty, for nothing of theirs may be wiped", after.Spec.ClaimRef, after.Spec.Release)
	}
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "ClaimLost") || !strings.Contains(heard, `"theirs"`) {
		t.Errorf("events = %s, want ClaimLost with the name", heard)
	}
}

// A provisioned Machine keeps showing whose its Mac is, and does not say of a Mac
// that was bootstrapped that none was ever claimed.
func TestALostHostIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *host.Host)
		says   string
	}{
		"named by another": {func(h *host.Host) {
			h.Status.Conditions[0].Status, h.Status.Conditions[0].Reason = metav1.ConditionFalse, infrav1.ReasonChangedByOther
		}, `name is now "theirs"`},
		"claimed by another": {func(h *host.Host) {
			h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "other", Name: "mac-7", Token: "theirs"}
		}, "claimed for Machine other/mac-7"},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			h := w.host(hostName)
			c.change(h)
			status := h.Status
			w.update(h)
			h.Status = status
			h.Status.Server.Name = "theirs"
			w.updateStatus(h)
			w.settle("mac-1")
			if got := w.message("mac-1", infrav1.HostClaimedCondition); w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonClaimLost || !strings.Contains(got, c.says) || !strings.Contains(got, `"theirs"`) {
				t.Errorf("HostClaimed = %s %q", w.reason("mac-1", infrav1.HostClaimedCondition), got)
			}
			if got := w.message("mac-1", infrav1.BootstrappedCondition); !strings.Contains(got, "the Mac was bootstrapped") {
				t.Errorf("Bootstrapped = %q", got)
			}
		})
	}
}

func TestFleetKey(t *testing.T) {
	w := newWorld(t, append(append(pair("mac-1"), pair("mac-2")...), poolHost(serverID), poolHost(otherID))...)
	w.settle("mac-1")
	w.settle("mac-2")
	secret := w.secret("builders-ssh")
	if len(w.keys.calls) != 1 || !strings.HasSuffix(w.keys.calls[0], strings.TrimSpace(secret[keyPublic])) {
		t.Errorf("registered = %q, want the public half of the Secret, once", w.keys.calls)
	}
	w.restart()
	w.visit("mac-1")
	if got := w.secret("builders-ssh"); got[keyPrivate] != secret[keyPrivate] {
		t.Error("the fleet's key was replaced")
	}
}

func TestNoClaimWithoutARegisteredKey(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.keys.err = errPlain
	w.visit("mac-1")
	w.visit("mac-1")
	if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}}); err == nil {
		t.Error("the vendor's error is not reported, so nothing would try again")
	}
	if m := w.machine("mac-1"); m.Spec.HostRef != nil || w.reason("mac-1", infrav1.HostClaimedCondition) != infrav1.ReasonFleetKeyUnavailable {
		t.Errorf("hostRef = %+v, reason = %s", m.Spec.HostRef, w.reason("mac-1", infrav1.HostClaimedCondition))
	}
}
