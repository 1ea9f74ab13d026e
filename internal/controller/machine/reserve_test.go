package machine

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
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

// After the first try the cache may be older than our own claim.
func TestTheCacheIsBelievedOnceAToken(t *testing.T) {
	r := &reservations{}
	for n, want := range []bool{true, false, false} {
		if got := r.firstTry("h", "t-1"); got != want {
			t.Errorf("try %d: first = %t", n, got)
		}
	}
	if !r.firstTry("h", "t-2") {
		t.Error("another token is tried before")
	}
}
