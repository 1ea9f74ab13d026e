package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// clocks are how far the clock of the manager that wrote a time was off.
var clocks = map[string]time.Duration{"its clock is behind": -10 * time.Minute, "its clock is ahead": 10 * time.Minute}

func (w *world) writtenBy(off time.Duration) *metav1.MicroTime {
	return ptr.To(metav1.NewMicroTime(w.clock.Now().Add(off).Truncate(time.Microsecond)))
}

// The name of a claim that another manager showed settles once more here, and no
// longer, whichever clock is ahead.
func TestANameSettlesByThisManagersClock(t *testing.T) {
	for name, off := range clocks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.untilPhase(infrav1.HostAvailable)
			w.claim("m-1", "t-1")
			w.until("shown", func() bool { return w.host().Status.ShownSince != nil })
			w.start(w.r.Options)
			w.inventory.Sweep(w.ctx)
			h := w.host()
			h.Status.ShownSince = w.writtenBy(off)
			w.must(w.client.Status().Update(w.ctx, h))
			_, err := w.reconcile()
			w.must(err)
			if w.secret() != nil {
				t.Fatal("staged before the name has settled")
			}
			w.clock.Step(w.r.Settle)
			_, err = w.reconcile()
			w.must(err)
			if w.secret() == nil {
				t.Errorf("not staged after %s: %+v", w.r.Settle, w.host().Status)
			}
		})
	}
}

// A start of a wipe that another manager recorded is left alone for as long.
func TestAWipeSettlesByThisManagersClock(t *testing.T) {
	for name, off := range clocks {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			w.release()
			w.until("started", func() bool { return w.host().Spec.Record.Wipe.StartedAt != nil })
			h := w.host()
			h.Spec.Record.Wipe.RequestedAt, h.Spec.Record.Wipe.StartedAt = w.writtenBy(off), w.writtenBy(off)
			w.must(w.client.Update(w.ctx, h))
			w.start(w.r.Options)
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusReady }) // as a reading that lags would show
			_, err := w.reconcile()
			w.must(err)
			if w.host().Spec.Record.Wipe.ObservedAt != nil {
				t.Fatal("observed before the start has settled")
			}
			w.clock.Step(w.r.Settle)
			_, err = w.reconcile()
			w.must(err)
			if h := w.host(); h.Spec.Release != nil {
				t.Errorf("not free after %s: %+v", w.r.Settle, h.Spec.Record.Wipe)
			}
		})
	}
}

// A reinstall by hand, too: its start is believed for what it is by its lists.
func TestAWipeByHandSettlesByThisManagersClock(t *testing.T) {
	for name, off := range clocks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.untilPhase(infrav1.HostAvailable)
			h := w.host()
			h.Spec.Record.Wipe = infrav1.WipeRecord{Generation: 1, RequiredSince: w.writtenBy(off), RequestedAt: w.writtenBy(off), StartedAt: w.writtenBy(off)}
			w.must(w.client.Update(w.ctx, h))
			began := w.clock.Now()
			w.until("clean", func() bool { return host.Clean(w.host()) })
			if took := w.clock.Since(began); took < host.ListLag || took > 3*host.ListLag {
				t.Errorf("clean after %s, want %s", took, host.ListLag)
			}
		})
	}
}

// Another manager's clock changes nothing of what this one's own lists say.
func TestWhatTheOwnListsLack(t *testing.T) {
	w := inUse(t)
	if w.inventory.Lacks(zone, serverID) || w.inventory.Lacks(zone, "unknown") {
		t.Error("a server that is listed, or was never looked for, is lacking")
	}
	h := w.host()
	h.Status.MissingSince = w.writtenBy(-time.Hour)
	w.must(w.client.Status().Update(w.ctx, h))
	if w.inventory.Lacks(zone, serverID) {
		t.Error("another manager's missing is taken for an own one")
	}
	w.cloud.Remove(serverID)
	w.inventory.Sweep(w.ctx)
	if !w.inventory.Lacks(zone, serverID) {
		t.Error("the last list lacks it")
	}
}
