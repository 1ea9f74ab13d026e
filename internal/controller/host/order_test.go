package host

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

const ordered = "order-m-9"

// ordering is a world whose Machine m-9 has ordered a server.
func ordering(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.cloud.Types = []cloud.ServerType{{Name: "M2-L"}}
	w.cloud.Images = map[string]cloud.OS{"tahoe": {ID: "os-1", Family: "tahoe"}}
	w.machine("m-9", func(m *infrav1.ScalewayAppleSiliconMachine) {
		m.Spec.HostRef = &infrav1.HostReference{Name: ordered, ClaimToken: "t-9"}
	})
	w.must(w.client.Create(w.ctx, &host.Host{
		ObjectMeta: metav1.ObjectMeta{Name: ordered, Finalizers: []string{infrav1.HostFinalizer}},
		Spec: infrav1.ScalewayAppleSiliconHostSpec{
			Zone: zone, ClaimRef: &infrav1.ClaimReference{Cluster: "c", Namespace: "fleet", Name: "m-9", Token: "t-9"},
			Order: &infrav1.OrderRequest{Name: "m-9", Type: "M2-L", OS: "tahoe", Zone: zone},
		},
	}))
	w.inventory.Sweep(w.ctx)
	w.cloud.Forget()
	return w
}

// openOrder reads the order; nil when there is none.
func (w *world) openOrder() *host.Host {
	w.t.Helper()
	h := &host.Host{}
	err := w.client.Get(w.ctx, client.ObjectKey{Name: ordered}, h)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return h
}

// delivered are the Hosts that hold the order's claim.
func (w *world) delivered() (out []host.Host) {
	w.t.Helper()
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	w.must(w.client.List(w.ctx, hosts))
	for _, h := range hosts.Items {
		if h.Spec.ServerID != "" && bears(&h, "t-9") {
			out = append(out, h)
		}
	}
	return out
}

// look is one list of the inventory and one pass over the order.
func (w *world) look() (reconcile.Result, error) {
	w.inventory.Sweep(w.ctx)
	result, err := w.r.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: ordered}})
	if w.killed {
		w.killed = false
		w.start(w.r.Options)
	}
	return result, err
}

// follow does the machine controller's part: it names the Host that the order became.
func (w *world) follow() {
	w.t.Helper()
	made := w.delivered()
	if len(made) == 0 {
		return
	}
	m := &infrav1.ScalewayAppleSiliconMachine{}
	if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "m-9"}, m); err != nil {
		return
	}
	m.Spec.HostRef.Name = made[0].Name
	w.must(w.client.Update(w.ctx, m))
}

func (w *world) orderReason() (string, string) {
	w.t.Helper()
	c := meta.FindStatusCondition(w.openOrder().Status.Conditions, infrav1.OrderedCondition)
	if c == nil {
		return "", ""
	}
	return c.Reason, c.Message
}

// created counts the servers that were made.
func (w *world) created() (n int) {
	servers, err := w.cloud.ListServers(w.ctx, zone)
	w.must(err)
	for _, s := range servers {
		if s.Name == "m-9" {
			n++
		}
	}
	return n
}

// That a server was ordered, and is to go back to the vendor with its Machine, is on its Host
// alone once the order has ended.
func TestAnOrderedServerOutlivesItsHostsDeletion(t *testing.T) {
	w := ordering(t)
	_, err := w.look()
	w.must(err)
	w.follow()
	_, err = w.look()
	w.must(err)
	made := w.delivered()
	if w.openOrder() != nil || len(made) != 1 {
		t.Fatalf("not delivered: %+v", made)
	}
	w.must(w.client.Delete(w.ctx, &made[0]))
	w.inventory.Sweep(w.ctx)
	w.reconcileOf(made[0].Name)
	if made = w.delivered(); len(made) != 1 || !made[0].Spec.Record.Ordered {
		t.Errorf("forgotten that it was ordered, and for whom: %+v", made)
	}
}

func TestAnOrderBecomesAClaimedHost(t *testing.T) {
	w := ordering(t)
	_, err := w.look()
	w.must(err)
	made := w.delivered()
	if len(made) != 1 || !made[0].Spec.Record.Ordered || made[0].Spec.Record.InstallEpoch != 1 || made[0].Spec.ClaimRef.Name != "m-9" {
		t.Fatalf("made %+v, calls %v", made, w.cloud.Calls())
	}
	if o := w.openOrder(); o == nil || o.Spec.Order.AttemptedAt == nil || o.Status.Phase != infrav1.HostOrdering {
		t.Fatalf("the order must stay until its Machine names the Host: %+v", o)
	}
	w.follow()
	_, err = w.look()
	w.must(err)
	if w.openOrder() != nil {
		t.Error("the order is still there")
	}
	w.cloud.Deliver(made[0].Spec.ServerID)
	for range 6 {
		w.inventory.Sweep(w.ctx)
		w.reconcileOf(made[0].Name)
		w.clock.Step(5 * time.Second)
	}
	if got := w.delivered()[0]; got.Status.Phase != infrav1.HostInUse {
		t.Errorf("phase %s, conditions %+v", got.Status.Phase, got.Status.Conditions)
	}
	if calls := w.mutations(); len(calls) != 1 || calls[0] != "CreateServer m-9" {
		t.Errorf("calls %v", calls)
	}
}

// TestNeverTwoServers ends the manager before and after each call and each write
// of an order, and then carries on with one that remembers nothing.
func TestNeverTwoServers(t *testing.T) {
	crashes := 0
	for n := range 40 {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/%v", n, late), func(t *testing.T) {
				if crashAtOrder(t, n, late) {
					crashes++
				}
			})
		}
	}
	if crashes < 16 {
		t.Errorf("only %d crashes were tried", crashes)
	}
}

func crashAtOrder(t *testing.T, n int, late bool) (crashed bool) {
	w := ordering(t)
	boom, act := errors.New("killed"), 0
	fault := func() (before, after error) {
		act++
		if act-1 != n || crashed {
			return nil, nil
		}
		crashed, w.killed = true, true
		if late {
			return nil, boom
		}
		return boom, nil
	}
	unanswered := &cloud.Error{Kind: cloud.KindUnavailable, Doing: "test"}
	w.cloud.Fault = func(c cloudtest.Call) (error, error) {
		before, after := fault()
		return orNil(before, unanswered), orNil(after, unanswered)
	}
	w.writeFault = func(int) (error, error) { return fault() }
	for range 40 {
		result, _ := w.look()
		w.clock.Step(max(result.RequeueAfter, time.Second))
		w.follow()
		if w.openOrder() == nil {
			break
		}
	}
	w.cloud.Fault, w.writeFault = nil, nil
	if made := w.delivered(); w.created() != 1 || len(made) != 1 || w.openOrder() != nil {
		t.Errorf("%d servers, %d hosts, order %v; calls %v", w.created(), len(made), w.openOrder() != nil, w.cloud.Calls())
	}
	return crashed
}

func orNil(err, as error) error {
	if err == nil {
		return nil
	}
	return as
}

func TestALostAnswerIsLookedForBeforeAskingAgain(t *testing.T) {
	w := ordering(t)
	asked := 0
	w.cloud.Fault = func(c cloudtest.Call) (error, error) {
		if c.Name == "CreateServer" {
			if asked++; asked == 1 {
				return cloudtest.Err(cloud.KindUnavailable), nil // nothing came of it, but nobody knows
			}
		}
		return nil, nil
	}
	started := w.clock.Now()
	for asked < 2 {
		result, err := w.look()
		w.must(err)
		w.clock.Step(max(result.RequeueAfter, time.Second))
		if w.clock.Since(started) > 10*time.Minute {
			t.Fatal("never asked again")
		}
	}
	if waited := w.clock.Since(started); waited < host.OrderSettle {
		t.Errorf("asked again after %s", waited)
	}
}

func TestRefusedOrdersRestAndSayWhy(t *testing.T) {
	for _, c := range []struct {
		name, reason, says string
		arrange            func(*world)
	}{
		{"out of stock", infrav1.ReasonOutOfStock, `type "M2-L" in zone fr-par-1`, func(w *world) { w.refuseCreate(cloud.KindOutOfStock) }},
		{"quota", infrav1.ReasonQuotaExceeded, "M2-L", func(w *world) { w.refuseCreate(cloud.KindQuota) }},
		{"invalid", infrav1.ReasonOrderRejected, "M2-L", func(w *world) { w.refuseCreate(cloud.KindInvalid) }},
		{"unknown type", infrav1.ReasonOrderRejected, "it has M1-M, M4-S", func(w *world) {
			w.cloud.Types = []cloud.ServerType{{Name: "M4-S"}, {Name: "M1-M"}}
		}},
		{"unknown os", infrav1.ReasonOrderRejected, `os "tahoe"`, func(w *world) { w.cloud.Images = nil }},
		{"the name is taken", infrav1.ReasonOrderRejected, "claimed or not clean", func(w *world) {
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "m-9" })
			h := w.host()
			host.Claim(h, infrav1.ClaimReference{Namespace: "fleet", Name: "m-9", Token: "another"}, w.clock.Now())
			w.must(w.client.Update(w.ctx, h))
			o, at := w.openOrder(), metav1.NewMicroTime(w.clock.Now())
			o.Spec.Order.AttemptedAt = &at
			w.must(w.client.Update(w.ctx, o))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ordering(t)
			c.arrange(w)
			for range 5 {
				_, err := w.look()
				w.must(err)
				w.clock.Step(time.Second)
			}
			reason, message := w.orderReason()
			if reason != c.reason || !strings.Contains(message, c.says) {
				t.Errorf("%s: %s", reason, message)
			}
			if n := w.calls("CreateServer"); n > 1 {
				t.Errorf("asked %d times within seconds", n)
			}
			if len(w.delivered()) != 0 {
				t.Error("a host was made")
			}
		})
	}
}

func (w *world) refuseCreate(kind cloud.Kind) {
	w.cloud.Fault = func(c cloudtest.Call) (error, error) {
		if c.Name == "CreateServer" {
			return cloudtest.Err(kind), nil
		}
		return nil, nil
	}
}

// loseCreateAnswers: servers are made, and nobody is told.
func (w *world) loseCreateAnswers() {
	w.cloud.Fault = func(c cloudtest.Call) (error, error) {
		if c.Name == "CreateServer" {
			return nil, cloudtest.Err(cloud.KindUnavailable)
		}
		return nil, nil
	}
}

func (w *world) calls(name string) (n int) {
	for _, c := range w.cloud.Calls() {
		if c.Name == name {
			n++
		}
	}
	return n
}

func TestAnOrderIsTriedAgainWhenThereIsStock(t *testing.T) {
	w := ordering(t)
	w.refuseCreate(cloud.KindOutOfStock)
	result, err := w.look()
	w.must(err)
	if result.RequeueAfter != host.OrderBackOff {
		t.Errorf("again after %s", result.RequeueAfter)
	}
	w.cloud.Fault = nil
	w.clock.Step(result.RequeueAfter)
	_, err = w.look()
	w.must(err)
	if len(w.delivered()) != 1 {
		t.Errorf("calls %v", w.cloud.Calls())
	}
}

func TestNothingIsOrderedWhile(t *testing.T) {
	for name, arrange := range map[string]func(*world){
		"the Machine is paused": func(w *world) {
			m := &infrav1.ScalewayAppleSiliconMachine{}
			w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "m-9"}, m))
			m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			w.must(w.client.Update(w.ctx, m))
		},
		"the Cluster is gone": func(w *world) {
			w.must(w.client.Delete(w.ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "c"}}))
		},
		"the list is empty and the credentials do not work": func(w *world) {
			w.cloud.Remove(serverID)
			w.cloud.Fault = func(c cloudtest.Call) (error, error) {
				if c.Name == "CheckAccess" {
					return cloudtest.Err(cloud.KindForbidden), nil
				}
				return nil, nil
			}
		},
		"the zone cannot be listed": func(w *world) {
			w.cloud.Fault = func(c cloudtest.Call) (error, error) {
				if c.Name == "ListServers" {
					return cloudtest.Err(cloud.KindUnavailable), nil
				}
				return nil, nil
			}
		},
		"the order has no claim": func(w *world) {
			o := w.openOrder()
			o.Spec.ClaimRef = nil
			w.must(w.client.Update(w.ctx, o))
		},
		"the Machine chose again": func(w *world) {
			m := &infrav1.ScalewayAppleSiliconMachine{}
			w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "m-9"}, m))
			m.Spec.HostRef.ClaimToken = "t-10"
			w.must(w.client.Update(w.ctx, m))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ordering(t)
			arrange(w)
			for range 3 {
				_, _ = w.look()
				w.clock.Step(time.Minute)
			}
			if n := w.calls("CreateServer"); n != 0 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

func (w *world) releaseOrder() {
	w.t.Helper()
	o := w.openOrder()
	o.Spec.Release = &infrav1.Release{Token: "t-9", Policy: infrav1.Terminate, RequestedAt: metav1.NewMicroTime(w.clock.Now())}
	w.must(w.client.Update(w.ctx, o))
	w.must(client.IgnoreNotFound(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-9"}})))
}

func TestAReleasedOrderEndsWithItsServer(t *testing.T) {
	t.Run("nothing was ordered", func(t *testing.T) {
		w := ordering(t)
		w.releaseOrder()
		_, err := w.look()
		w.must(err)
		if w.openOrder() == nil {
			t.Fatal("one list proved it")
		}
		w.clock.Step(host.GoneAfter)
		_, err = w.look()
		w.must(err)
		if w.openOrder() != nil || w.created() != 0 {
			t.Errorf("order %v, %d servers", w.openOrder(), w.created())
		}
	})
	t.Run("the answer was lost, and the server is there", func(t *testing.T) {
		w := ordering(t)
		w.loseCreateAnswers()
		_, err := w.look()
		w.must(err)
		w.releaseOrder()
		_, err = w.look()
		w.must(err)
		made := w.delivered()
		if len(made) != 1 || !host.WipeAllowed(&made[0]) || made[0].Spec.Release.Policy != infrav1.Terminate || w.openOrder() != nil {
			t.Errorf("made %+v", made)
		}
	})
	t.Run("the Host is there, and its Machine does not name it yet", func(t *testing.T) {
		w := ordering(t)
		_, err := w.look()
		w.must(err)
		w.releaseOrder()
		_, err = w.look()
		w.must(err)
		if made := w.delivered(); len(made) != 1 || !host.WipeAllowed(&made[0]) || w.openOrder() != nil {
			t.Errorf("made %+v", made)
		}
	})
	t.Run("nothing came of it, and another's server has its name", func(t *testing.T) {
		w := ordering(t)
		o, at := w.openOrder(), metav1.NewMicroTime(w.clock.Now())
		o.Spec.Order.AttemptedAt = &at
		w.must(w.client.Update(w.ctx, o))
		w.cloud.Set(cloud.Server{ID: strayID(77), Zone: zone, Name: "m-9", Type: "M2-L", Status: cloud.StatusReady, Delivered: true}, "x")
		theirs := host.New(zone, strayID(77), "")
		theirs.Spec.ClaimRef = &infrav1.ClaimReference{Cluster: "c", Namespace: "fleet", Name: "m-9", Token: "t-10"}
		w.must(w.client.Create(w.ctx, theirs))
		w.releaseOrder()
		w.lookFor(host.OrderSettle + 2*host.GoneAfter)
		w.must(w.client.Get(w.ctx, strayKey(77), theirs))
		if w.openOrder() != nil || theirs.Spec.ClaimRef.Token != "t-10" || theirs.Spec.Release != nil {
			t.Errorf("order %v, theirs %+v", w.openOrder() != nil, theirs.Spec)
		}
	})
	t.Run("the Machine is gone without a release", func(t *testing.T) {
		w := ordering(t)
		_, err := w.look()
		w.must(err)
		w.must(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-9"}}))
		_, err = w.look()
		w.must(err)
		if made := w.delivered(); len(made) != 1 || made[0].Spec.Release != nil || w.openOrder() != nil {
			t.Errorf("made %+v", made)
		}
	})
}

func TestTheInventoryMakesNoHostForAnOpenOrder(t *testing.T) {
	w := ordering(t)
	o, at := w.openOrder(), metav1.NewMicroTime(w.clock.Now())
	o.Spec.Order.AttemptedAt = &at // sent, and the answer was lost
	w.must(w.client.Update(w.ctx, o))
	w.cloud.Set(cloud.Server{ID: strayID(1), Zone: zone, Name: "m-9", Status: cloud.StatusStarting}, "")
	w.inventory.Sweep(w.ctx)
	err := w.client.Get(w.ctx, strayKey(1), &host.Host{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("the inventory made one: %v", err)
	}
	select {
	case woken := <-w.inventory.changes:
		for woken.Object.GetName() != ordered {
			woken = <-w.inventory.changes
		}
	default:
		t.Error("the order was not woken")
	}
	_, err = w.look()
	w.must(err)
	if made := w.delivered(); len(made) != 1 || made[0].Spec.ServerID != strayID(1) || w.calls("CreateServer") != 0 {
		t.Errorf("made %+v", made)
	}
}
