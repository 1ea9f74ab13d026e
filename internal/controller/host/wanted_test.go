package host

import (
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// lostWithALaggingList has the Host of a claim deleted and made again, and a list that
// shows its server by the name from before the claim.
func lostWithALaggingList(t *testing.T) *world {
	t.Helper()
	w := inUse(t)
	w.must(w.client.Delete(w.ctx, w.host()))
	w.inventory.Sweep(w.ctx)
	w.cloud.Forget()
	w.listLags()
	return w
}

// listLags has the newest reading be a list's that shows the name from before the claim.
func (w *world) listLags() {
	server, _ := w.cloud.Server(serverID)
	server.Name = prefix + "1"
	w.inventory.readings.put(server, w.clock.Now())
}

// Another Machine claimed the host by that name, and its owner took another: two servers
// were named after the owner.
func TestAHostMadeAgainIsNotFreeByAnOldNameInAList(t *testing.T) {
	w := lostWithALaggingList(t)
	for list := range 2 { // what the server itself showed holds against the next list, too
		_, err := w.reconcile()
		w.must(err)
		if h := w.host(); h.Status.Server.Name != "m-1" || h.Status.Phase == infrav1.HostAvailable || host.Unavailable(h, prefix) == "" {
			t.Errorf("list %d: phase %s, named %s", list, h.Status.Phase, h.Status.Server.Name)
		}
		w.clock.Step(w.r.InventoryInterval)
		w.listLags()
	}
	if got := w.called("GetServer"); got != 2 {
		t.Errorf("%d readings, want one a list", got)
	}
}

func TestAHostMadeAgainWaitsForTheReadingOfItsServer(t *testing.T) {
	w := lostWithALaggingList(t)
	fails := true
	w.cloud.Fault = func(c cloudtest.Call) (before, after error) {
		if c.Name == "GetServer" && fails {
			return cloudtest.Err(cloud.KindUnavailable), nil
		}
		return nil, nil
	}
	if _, err := w.reconcile(); err == nil {
		t.Error("nobody tries again")
	}
	if h := w.host(); h.Status.Phase != infrav1.HostDiscovered || host.Unavailable(h, prefix) != host.SkipUnseen {
		t.Errorf("phase %s, skipped as %q", h.Status.Phase, host.Unavailable(h, prefix))
	}
	fails = false
	_, err := w.reconcile()
	w.must(err)
	if got := w.host().Status.Server.Name; got != "m-1" {
		t.Errorf("named %s", got)
	}
}

// Most free hosts are nobody's: a pool of a thousand costs no reading.
func TestAFreeHostThatNoMachineMeansCostsNoReading(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	if got := w.called("GetServer"); got != 0 {
		t.Errorf("%d readings, calls %v", got, w.cloud.Calls())
	}
}
