package host

import (
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// filtering is a manager with the watch filter "mine", beside an idle Host of another one's,
// which remembers that a person keeps it out of the pool.
func filtering(t *testing.T) (w *world, others *host.Host) {
	t.Helper()
	w = newWorld(t)
	opts := w.r.Options
	opts.WatchFilter = "mine"
	w.start(opts)
	others = host.New(zone, strayID(1), "another")
	others.Spec.Maintenance = &infrav1.Maintenance{Reason: "new SSD"}
	w.must(w.client.Create(w.ctx, others))
	return w, others
}

// pass is a list of the inventory, and a pass over each Host that it wakes or that the test does.
func (w *world) pass(h *host.Host) {
	w.t.Helper()
	w.inventory.Sweep(w.ctx)
	for wakes := len(w.inventory.changes); wakes > 0; wakes-- {
		if woken := <-w.inventory.changes; woken.Object.GetName() == h.Name {
			w.t.Error("the list wakes another manager's Host")
		}
	}
	if _, err := w.r.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(h)}); err != nil {
		w.t.Error(err)
	}
	w.clock.Step(time.Minute)
}

// The project of another watch filter's manager may be another: that our list lacks its
// servers says nothing of them, and its Hosts are its own to delete.
func TestAServerOfAnotherWatchFilterIsNotMissed(t *testing.T) {
	w, others := filtering(t)
	for range 20 {
		w.pass(others)
	}
	kept := &host.Host{}
	w.must(w.client.Get(w.ctx, client.ObjectKeyFromObject(others), kept))
	if kept.ResourceVersion != others.ResourceVersion {
		t.Errorf("its Host was written: %+v", kept)
	}
	if report, _ := w.inventory.Zone(zone); report.Suspicious || report.Expected != 1 || report.Missing != 0 {
		t.Errorf("the list is judged by it: %+v", report)
	}
	if got := w.host().Labels[clusterv1.WatchLabel]; got != "mine" {
		t.Errorf("a new Host has the watch filter %q", got)
	}
}

// Where both see the same servers, each server has one Host.
func TestAServerOfAnotherWatchFilterIsNotMadeAgain(t *testing.T) {
	w, others := filtering(t)
	w.cloud.Set(cloud.Server{ID: strayID(1), Zone: zone, Name: prefix + "7", Status: cloud.StatusReady, Delivered: true}, "")
	w.pass(others)
	written := w.written()
	w.pass(others)
	if n := w.written() - written; n != 0 {
		t.Errorf("%d writes for a server that has a Host", n)
	}
}

// A zone in which another watch filter's manager has servers is not ours to list.
func TestAZoneOfAnotherWatchFilterIsNotListed(t *testing.T) {
	w, _ := filtering(t)
	elsewhere := host.New("nl-ams-1", strayID(2), "another")
	w.must(w.client.Create(w.ctx, elsewhere))
	w.inventory.Sweep(w.ctx)
	for _, call := range w.cloud.Calls() {
		if call.Name == "ListServers" && call.Arg != zone {
			t.Errorf("listed %s", call.Arg)
		}
	}
}
