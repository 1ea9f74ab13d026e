package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

const strangerID = "99999999-2222-3333-4444-555555555555"

// An attempt that another manager recorded is as old as it is known here, whichever
// clock is ahead, and one list that lacks its server proves nothing.
func TestAnAttemptIsAsOldAsThisManagerKnowsIt(t *testing.T) {
	for name, off := range map[string]time.Duration{"its clock is behind": -time.Hour, "its clock is ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := ordering(t)
			h := w.openOrder()
			at := metav1.NewMicroTime(w.clock.Now().Add(off).Truncate(time.Microsecond))
			h.Spec.Order.AttemptedAt = &at
			w.must(w.client.Update(w.ctx, h))
			began := w.clock.Now()
			for w.created() == 0 && w.clock.Since(began) < 10*time.Minute {
				_, err := w.look()
				w.must(err)
				w.clock.Step(time.Second)
			}
			if took := w.clock.Since(began); took < host.OrderSettle+host.GoneAfter || took > host.OrderSettle+host.GoneAfter+10*time.Second {
				t.Errorf("the server was ordered again after %s; calls %v", took, w.mutations())
			}
		})
	}
}

// A server of the order's name that somebody has is not what became of it: an order
// that nobody wants any more ends beside it.
func TestAnUnwantedOrderEndsBesideANamesake(t *testing.T) {
	w := ordering(t)
	w.cloud.Fault = func(c cloudtest.Call) (error, error) {
		if c.Name == "CreateServer" {
			return &cloud.Error{Kind: cloud.KindUnavailable, Doing: "test"}, nil
		}
		return nil, nil
	}
	_, err := w.look()
	w.must(err)
	w.cloud.Set(cloud.Server{ID: strangerID, Zone: zone, Name: "m-9", Type: "M2-L", Status: cloud.StatusReady, Delivered: true}, "p")
	taken := &host.Host{
		ObjectMeta: metav1.ObjectMeta{Name: host.ObjectName(zone, strangerID)},
		Spec: infrav1.ScalewayAppleSiliconHostSpec{
			ServerID: strangerID, Zone: zone, ClaimRef: &infrav1.ClaimReference{Namespace: "fleet", Name: "m-9", Token: "t-earlier"},
		},
	}
	w.must(w.client.Create(w.ctx, taken))
	for range 40 {
		w.clock.Step(5 * time.Second)
		if _, err = w.look(); err != nil {
			t.Fatal(err)
		}
	}
	if o := w.openOrder(); o == nil {
		t.Fatal("an order that is wanted has ended")
	}
	h := w.openOrder()
	h.Spec.Release = &infrav1.Release{Token: "t-9", Policy: infrav1.Terminate, RequestedAt: metav1.NewMicroTime(w.clock.Now())}
	w.must(w.client.Update(w.ctx, h))
	for range 40 {
		w.clock.Step(5 * time.Second)
		if _, err = w.look(); err != nil {
			t.Fatal(err)
		}
	}
	if o := w.openOrder(); o != nil {
		t.Errorf("the order is still there: %+v", o.Status.Conditions)
	}
	w.must(w.client.Get(w.ctx, client.ObjectKeyFromObject(taken), taken))
	if taken.Spec.Release != nil || !bears(taken, "t-earlier") {
		t.Errorf("the namesake was touched: %+v", taken.Spec)
	}
}

// Rights that were lost since the last inventory make every list empty. That proves
// nothing: an order whose answer was lost may have become a server that bills.
func TestAnOrderOutlivesLostRights(t *testing.T) {
	w := ordering(t)
	w.loseCreateAnswers()
	_, err := w.look()
	w.must(err)
	w.releaseOrder()
	servers, err := w.cloud.ListServers(w.ctx, zone)
	w.must(err)
	for _, server := range servers {
		w.cloud.Remove(server.ID)
	}
	w.cloud.Fault = func(c cloudtest.Call) (error, error) {
		if c.Name == "CheckAccess" {
			return cloudtest.Err(cloud.KindForbidden), nil
		}
		return nil, nil
	}
	for range 4 {
		w.clock.Step(host.GoneAfterSuspicious)
		w.reconcileOf(ordered)
	}
	if w.openOrder() == nil {
		t.Fatal("the order is dropped by somebody who may see nothing")
	}
	w.cloud.Fault = nil
	for _, server := range servers {
		w.cloud.Set(server, "")
	}
	w.reconcileOf(ordered)
	if made := w.delivered(); len(made) != 1 || !host.WipeAllowed(&made[0]) || w.openOrder() != nil {
		t.Errorf("order %v, made %+v", w.openOrder() != nil, made)
	}
}

// A list that lacks too many servers at once does not prove that nothing came of an
// order: it may have become one of those.
func TestAnOrderIsNotRepeatedByASuspiciousList(t *testing.T) {
	w := ordering(t)
	w.another(6)
	w.loseCreateAnswers()
	_, err := w.look()
	w.must(err)
	w.cloud.Fault = nil
	servers, err := w.cloud.ListServers(w.ctx, zone)
	w.must(err)
	for _, server := range servers {
		if server.ID != serverID {
			w.cloud.Remove(server.ID)
		}
	}
	before := w.calls("CreateServer")
	for began := w.clock.Now(); w.clock.Since(began) < host.GoneAfterSuspicious-time.Minute; w.clock.Step(10 * time.Second) {
		_, err := w.look()
		w.must(err)
		if report, _ := w.inventory.Zone(zone); !report.Suspicious {
			t.Fatalf("the list is not suspicious: %+v", report)
		}
	}
	if n := w.calls("CreateServer") - before; n != 0 {
		t.Errorf("ordered %d times more on the word of suspicious lists", n)
	}
}
