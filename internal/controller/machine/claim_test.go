package machine

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
)

func TestClaimTakesAnAvailableHost(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.settle("mac-1")
	m, h := w.machine("mac-1"), w.host(hostName)
	if m.Spec.HostRef == nil || !host.HoldsClaim(h, m) {
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
	if m.Status.HostName != hostName || m.Status.ServerID != serverID || m.Status.Phase != machine.PhaseClaimed {
		t.Errorf("status = %+v", m.Status)
	}
	if heard := w.heard(); len(heard) != 1 || !strings.HasPrefix(heard[0], "Normal Claimed") {
		t.Errorf("events = %q, want one", heard)
	}
}

func TestContract_FinalizerComesFirst(t *testing.T) {
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
	if _, is := o.(*infrav1.ScalewayAppleSiliconMachine); is && r.intrude != nil {
		intrude := r.intrude
		r.intrude = nil
		intrude()
	}
	return r.Reader.Get(ctx, key, o, opts...)
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
	if h := w.host(hostName); winner.Spec.HostRef == nil || !host.HoldsClaim(h, winner) {
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
	if m, h := w.machine("mac-1"), w.host(hostName); m.Spec.HostRef == nil || !host.HoldsClaim(h, m) {
		t.Errorf("hostRef = %+v, claimRef = %+v: want one token on both", m.Spec.HostRef, h.Spec.ClaimRef)
	}
}

// A manager with an old copy of the Machine must not claim with a token that was
// dropped meanwhile.
func TestClearedHostRefClaimsNothing(t *testing.T) {
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
		if m.Spec.HostRef == nil || !host.HoldsClaim(h, m) {
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
	if before == nil || !bears(w.host(hostName), before.ClaimToken) {
		t.Fatalf("hostRef = %+v, want the claim written whose answer was lost", before)
	}
	w.settle("mac-1")
	after := w.machine("mac-1").Spec.HostRef
	if before == nil || after == nil || before.ClaimToken != after.ClaimToken {
		t.Errorf("hostRef before = %+v, after = %+v; want the same token", before, after)
	}
}

func TestContract_APausedMachineClaimsNothing(t *testing.T) {
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
	w.r.wire()
	w.settle("mac-1")
	if w.countWrites() != 0 {
		t.Errorf("writes = %q, want none for an object of another manager", w.writes)
	}
}

// A manager with a watch filter takes hosts that have it, too.
func TestAHostOfAnotherWatchFilterIsNotClaimed(t *testing.T) {
	for label, want := range map[string]bool{"mine": true, "another": false} {
		pool := poolHost(serverID)
		pool.Labels = map[string]string{clusterv1.WatchLabel: label}
		w := newWorld(t, append(pair("mac-1"), pool)...)
		m := w.machine("mac-1")
		m.Labels[clusterv1.WatchLabel] = "mine"
		w.update(m)
		w.r.WatchFilter = "mine"
		w.r.wire()
		w.settle("mac-1")
		if got := w.host(hostName).Spec.ClaimRef != nil; got != want {
			t.Errorf("%s: claimed %t: %s", label, got, w.reason("mac-1", infrav1.HostClaimedCondition))
		}
	}
}
