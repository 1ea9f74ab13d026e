package machine

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/host"
)

// One host needs one Machine: those that wait come in turns, first the one that the
// host prefers, and nobody is left out.
func TestWaitingMachinesAreWokenOneAfterAnother(t *testing.T) {
	var objects []client.Object
	for n := range 20 {
		objects = append(objects, pair(fmt.Sprintf("mac-%d", n))...)
	}
	free := poolHost(serverID)
	w := newWorld(t, append(objects, free)...)
	_, waiting := w.r.machinesOfHost(t.Context(), nil, free)
	if len(waiting) != 20 {
		t.Fatalf("%d of 20 are woken", len(waiting))
	}
	for n := 1; n < len(waiting); n++ {
		before, now := waiting[n-1], waiting[n]
		if host.RendezvousScore(before.Namespace, before.Name, free) < host.RendezvousScore(now.Namespace, now.Name, free) {
			t.Errorf("%s comes before %s", before.Name, now.Name)
		}
	}
	if wakeDelay(0) != 0 || wakeDelay(1) != wakeStep || wakeDelay(2) != wakeDelay(3) || wakeDelay(3) >= wakeDelay(4) {
		t.Errorf("turns: %v", []time.Duration{wakeDelay(0), wakeDelay(1), wakeDelay(2), wakeDelay(3), wakeDelay(4)})
	}
}
