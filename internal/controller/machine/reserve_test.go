package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// Until the cache shows a claim, nobody else of this process reaches for its host; the
// Machine that has chosen it may again, and everybody once that came to nothing.
func TestAChosenHostIsLeftToWhoChoseIt(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	r := &reservations{clock: clock}
	hosts := []infrav1.ScalewayAppleSiliconHost{*poolHost(serverID)}
	choose := func(name string) (*host.Host, host.Skipped) {
		wish := host.Requirements{Namespace: namespace, Name: name, Zone: hosts[0].Spec.Zone, PoolPrefix: "tuist-pool-", Now: clock.Now()}
		return r.choose(wish, hosts, client.ObjectKey{Namespace: namespace, Name: name})
	}
	if chosen, skipped := choose("mac-1"); chosen == nil {
		t.Fatalf("nothing is chosen: %s", skipped)
	}
	if chosen, skipped := choose("mac-2"); chosen != nil || skipped[host.SkipReserved] != 1 {
		t.Errorf("the second chooses %v, skipped %s", chosen, skipped)
	}
	if chosen, _ := choose("mac-1"); chosen == nil {
		t.Error("the first may not choose it again")
	}
	clock.Step(reserved)
	if chosen, _ := choose("mac-2"); chosen == nil {
		t.Error("the host is reserved for ever")
	}
}

// After the first try the cache may be older than our own claim, whoever has tried to get
// the host meanwhile.
func TestTheCacheIsBelievedOnceAToken(t *testing.T) {
	r := &reservations{}
	one, other := client.ObjectKey{Name: "mac-1"}, client.ObjectKey{Name: "mac-2"}
	for n, c := range []struct {
		machine client.ObjectKey
		token   string
		first   bool
	}{
		{one, "t-1", true}, {one, "t-1", false}, {other, "t-2", true}, {one, "t-1", false}, {one, "t-3", true},
	} {
		if got := r.firstTry(c.machine, c.token); got != c.first {
			t.Errorf("try %d: first = %t", n, got)
		}
	}
	r.forget(one)
	if !r.firstTry(one, "t-3") {
		t.Error("a Machine that is gone is remembered")
	}
}

// A Machine that finds nothing but what another is about to claim looks again as soon as
// that claim may have come to nothing: nobody wakes it then.
func TestWhoFindsAReservedHostLooksAgainSoon(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.r.reservations.by = map[string]reservation{hostName: {client.ObjectKey{Name: "another"}, w.clock.Now().Add(reserved)}}
	result := w.settle("mac-1")
	if ref := w.machine("mac-1").Spec.HostRef; ref != nil {
		t.Fatalf("it has chosen %+v", ref)
	}
	if result.RequeueAfter != reserved {
		t.Errorf("it looks again after %s, want %s", result.RequeueAfter, reserved)
	}
}

// frozenHost is a cache that shows a host as it was.
type frozenHost struct {
	client.Client
	host *host.Host
}

func (f frozenHost) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if h, is := o.(*host.Host); is && key.Name == f.host.Name {
		f.host.DeepCopyInto(h)
		return nil
	}
	return f.Client.Get(ctx, key, o, opts...)
}

// A claim whose answer was lost, and which the cache does not show yet, is read and not
// written again.
func TestAClaimThatTheCacheDoesNotShowIsReadUncached(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.r.claimPhase.client = frozenHost{w.client, w.host(hostName)}
	lost := false
	w.lose = func(verb string, o client.Object) error {
		if _, is := o.(*host.Host); !is || verb != "update" || lost {
			return nil
		}
		lost = true
		return errors.New("the answer was lost")
	}
	for range 5 {
		_, _ = w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "mac-1"}})
	}
	tries := 0
	for _, write := range w.writes {
		if write == "update "+hostName {
			tries++
		}
	}
	if c := conditions.Get(w.machine("mac-1"), infrav1.HostClaimedCondition); !lost || tries != 1 || c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("lost %t, %d tries, condition %+v; writes %v", lost, tries, c, w.writes)
	}
}
