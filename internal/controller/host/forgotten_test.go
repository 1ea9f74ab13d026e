package host

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// alarm wakes the host as its controller's work queue does: by the events that its watch
// lets through, by the inventory, and when the last pass asked for it.
type alarm struct {
	*world
	watch watch.Interface
	seen  *host.Host
	// at is when the last pass wanted to be woken; zero: by events alone.
	at time.Time
	// listed is when the inventory's last list was.
	listed time.Time
}

func (w *world) alarm() *alarm {
	watched, err := w.client.Watch(w.ctx, &infrav1.ScalewayAppleSiliconHostList{})
	w.must(err)
	w.t.Cleanup(watched.Stop)
	w.inventory.Sweep(w.ctx)
	return &alarm{world: w, watch: watched, seen: w.host(), listed: w.clock.Now()}
}

// rings takes in all events, and reports that one of them wakes the host.
func (a *alarm) rings() (woken bool) {
	for {
		select {
		case <-a.inventory.changes:
			woken = true
		case e := <-a.watch.ResultChan():
			now := e.Object.(*host.Host)
			woken = a.r.statuses.news().Update(event.UpdateEvent{ObjectOld: a.seen, ObjectNew: now}) || woken
			a.seen = now
		default:
			return woken
		}
	}
}

// until lets time pass until the condition holds, and has the host looked at only when
// something wakes it.
func (a *alarm) until(what string, holds func() bool) {
	a.t.Helper()
	for began := a.clock.Now(); !holds(); {
		if a.clock.Since(began) > time.Hour {
			a.t.Fatalf("not %s, and forgotten: %+v", what, a.host())
		}
		if due := !a.at.IsZero() && !a.clock.Now().Before(a.at); a.rings() || due {
			result, err := a.reconcile()
			a.must(err)
			if a.at = (time.Time{}); result.RequeueAfter > 0 {
				a.at = a.clock.Now().Add(result.RequeueAfter)
			}
			continue
		}
		if next := a.listed.Add(a.r.InventoryInterval); a.at.IsZero() || !a.at.Before(next) {
			a.clock.SetTime(next)
			a.listed = next
			a.inventory.Sweep(a.ctx)
			continue
		}
		a.clock.SetTime(a.at)
	}
}

// A pass is not brought back by the status that it has written: who has more to do must say
// so. No host is forgotten on its way from one claim to the next.
func TestNoHostIsForgottenThoughItsStatusWakesNobody(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	server, _ := w.cloud.Server(serverID)
	server.Name = poolName
	w.cloud.Set(server, "") // sealed
	a := w.alarm()
	in := func(phase infrav1.HostPhase) func() bool { return func() bool { return a.phase() == phase } }
	w.claim("m-1", "t-1")
	a.until("shown without a password", func() bool { return w.reason(host.CredentialsStagedCondition) == infrav1.ReasonCredentialsSealed })
	server, _ = w.cloud.Server(serverID)
	w.cloud.Set(server, "firstpassword")
	a.until("in use", in(infrav1.HostInUse))
	w.must(w.client.Delete(w.ctx, w.secret()))
	removed := w.clock.Now()
	a.until("staged again", func() bool { return w.secret() != nil })
	if took := w.clock.Since(removed); took > secretCheck {
		t.Errorf("its Secret is missed after %s", took)
	}
	w.release()
	a.until("reinstalling", func() bool {
		server, _ := w.cloud.Server(serverID)
		return server.Status == cloud.StatusReinstalling
	})
	w.cloud.Finish(serverID)
	a.until("free", in(infrav1.HostAvailable))
	w.checkFree()
	w.claim("m-2", "t-2")
	a.until("in use again", in(infrav1.HostInUse))
}
