package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// alarm wakes the host as its controller's work queue does: by the events that its watch
// lets through, by the inventory, and when the last pass asked for it.
type alarm struct {
	*world
	name  string
	watch watch.Interface
	seen  *host.Host
	// at is when the last pass wanted to be woken; zero: by events alone.
	at time.Time
	// listed is when the inventory's last list was.
	listed time.Time
}

func (w *world) alarm(name string) *alarm {
	w.t.Helper()
	watched, err := w.client.Watch(w.ctx, &infrav1.ScalewayAppleSiliconHostList{})
	w.must(err)
	w.t.Cleanup(watched.Stop)
	w.inventory.Sweep(w.ctx)
	seen := &host.Host{}
	w.must(w.client.Get(w.ctx, client.ObjectKey{Name: name}, seen))
	return &alarm{world: w, name: name, watch: watched, seen: seen, listed: w.clock.Now()}
}

// rings takes in all events, and reports that one of them wakes the host.
func (a *alarm) rings() (woken bool) {
	for {
		select {
		case e := <-a.inventory.changes:
			woken = woken || e.Object.GetName() == a.name
		case e := <-a.watch.ResultChan():
			now := e.Object.(*host.Host)
			if now.Name != a.name {
				continue
			}
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
			a.t.Fatalf("not %s, and forgotten: %+v, calls %v", what, a.host(), a.cloud.Calls())
		}
		if due := !a.at.IsZero() && !a.clock.Now().Before(a.at); a.rings() || due {
			result, err := a.r.Reconcile(a.ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: a.name}})
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
	a := w.alarm(host.ObjectName(zone, serverID))
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

// What is asked of a host, and what becomes of it, is not forgotten either.
func TestNoRequestIsForgottenThoughAStatusWakesNobody(t *testing.T) {
	in := func(phase infrav1.HostPhase) func(*world) bool {
		return func(w *world) bool { return w.phase() == phase }
	}
	spec := func(change func(*infrav1.ScalewayAppleSiliconHostSpec)) func(*world) {
		return func(w *world) {
			h := w.host()
			change(&h.Spec)
			w.must(w.client.Update(w.ctx, h))
		}
	}
	type act struct {
		what string
		do   func(*world)
		then func(*world) bool
	}
	reinstalling := func(w *world) bool {
		server, _ := w.cloud.Server(serverID)
		return server.Status == cloud.StatusReinstalling
	}
	wiped := act{"free", func(w *world) { w.cloud.Finish(serverID) }, in(infrav1.HostAvailable)}
	soon := func(w *world) *metav1.Time { return &metav1.Time{Time: w.clock.Now().Add(20 * time.Minute)} }
	for name, c := range map[string]struct {
		start func(*testing.T) *world
		acts  []act
	}{
		"a reboot": {inUse, []act{
			{"rebooted", func(w *world) { w.undiagnosed(nil); w.askReboot("r-1", false) }, (*world).taken1},
			{"rebooted again", func(w *world) { w.askReboot("r-2", false) }, func(w *world) bool { return w.host().Status.LastReboot.ID == "r-2" }},
		}},
		"maintenance": {inUse, []act{
			{"out of the pool", func(w *world) {
				spec(func(s *infrav1.ScalewayAppleSiliconHostSpec) { s.Maintenance = &infrav1.Maintenance{Reason: "disk"} })(w)
				w.release()
			}, reinstalling},
			{"kept", func(w *world) { w.cloud.Finish(serverID) }, in(infrav1.HostMaintenance)},
			{"free", spec(func(s *infrav1.ScalewayAppleSiliconHostSpec) { s.Maintenance = nil }), in(infrav1.HostAvailable)},
		}},
		"a quarantine that ends by itself": {inUse, []act{
			{"out of the pool", func(w *world) {
				spec(func(s *infrav1.ScalewayAppleSiliconHostSpec) {
					s.Quarantine = &infrav1.Quarantine{Reason: "often", Until: soon(w)}
				})(w)
				w.release()
			}, reinstalling},
			{"kept", func(w *world) { w.cloud.Finish(serverID) }, in(infrav1.HostQuarantined)},
			{"free", func(*world) {}, in(infrav1.HostAvailable)},
		}},
		"an adoption": {foreign, []act{{"being wiped", func(w *world) { w.wish(false) }, reinstalling}, wiped}},
		"the adoption of a disk that is trusted": {foreign, []act{
			{"free", func(w *world) { w.wish(true) }, in(infrav1.HostAvailable)},
		}},
		"a reinstall of the same Machine": {inUse, []act{
			{"being wiped", func(w *world) { w.releaseAs(infrav1.Reinstall) }, reinstalling},
			{"in use again", func(w *world) { w.cloud.Finish(serverID) }, in(infrav1.HostInUse)},
		}},
		"a Mac that is given back": {inUse, []act{
			{"gone", func(w *world) { w.releaseAs(infrav1.Terminate) }, func(w *world) bool { return w.host() == nil }},
		}},
		"a Mac that is taken away": {inUse, []act{
			{"detached", func(w *world) { w.detach() }, func(w *world) bool { return w.host().Spec.ClaimRef == nil }},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := c.start(t).alarm(host.ObjectName(zone, serverID))
			for _, act := range c.acts {
				act.do(a.world)
				a.until(act.what, func() bool { return act.then(a.world) })
			}
		})
	}
	t.Run("an order without stock", func(t *testing.T) {
		w := ordering(t)
		w.refuseCreate(cloud.KindOutOfStock)
		a := w.alarm(ordered)
		a.at = w.clock.Now() // its creation wakes it
		asked := func() bool { return w.called("CreateServer") > 1 }
		a.until("asked twice", asked)
		w.cloud.Fault = nil
		a.until("delivered", func() bool { return len(w.delivered()) == 1 })
	})
}
