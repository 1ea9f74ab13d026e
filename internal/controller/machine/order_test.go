package machine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/machine"
)

const orderName = "order-mac-1"

// orderingPair is a Machine that has its own server made.
func orderingPair() []client.Object {
	objects := pair("mac-1")
	m := objects[1].(*infrav1.ScalewayAppleSiliconMachine)
	m.Spec.Acquisition, m.Spec.Type, m.Spec.OS = infrav1.Order, "M2-L", "tahoe"
	return objects
}

// deliver does what the host controller does once the server exists: its Host
// carries the order's claim, and its release.
func (w *world) deliver() {
	w.t.Helper()
	order, h := w.host(orderName), poolHost(serverID)
	h.Status.Server.Name, h.Status.Phase = "mac-1", infrav1.HostClaimed
	if _, err := host.Deliver(h, order, w.clock.Now()); err != nil {
		w.t.Fatal(err)
	}
	w.create(h)
}

func TestAnOrderIsPlaced(t *testing.T) {
	w := newWorld(t, append(orderingPair(), poolHost(otherID))...)
	w.r.DefaultPoolPrefix = "" // an order needs no pool
	w.r.wire()
	w.settle("mac-1")
	m, h := w.machine("mac-1"), w.host(orderName)
	want := infrav1.OrderRequest{Name: "mac-1", Type: "M2-L", OS: "tahoe", Zone: zone}
	if h.Spec.Order == nil || *h.Spec.Order != want || h.Spec.ServerID != "" || h.Spec.Zone != zone || len(h.Finalizers) != 1 {
		t.Errorf("spec = %+v, finalizers = %q; want %+v", h.Spec, h.Finalizers, want)
	}
	if m.Spec.HostRef == nil || m.Spec.HostRef.Name != orderName || !host.HoldsClaim(h, m) {
		t.Errorf("hostRef = %+v, claimRef = %+v", m.Spec.HostRef, h.Spec.ClaimRef)
	}
	if len(w.keys.calls) != 1 {
		t.Errorf("registered %d keys; the vendor injects them when it installs", len(w.keys.calls))
	}
	if got := w.reason("mac-1", infrav1.HostClaimedCondition); got != infrav1.ReasonOrdering || w.host(host.ObjectName(zone, otherID)).Spec.ClaimRef != nil {
		t.Errorf("HostClaimed = %s", got)
	}
	before := w.countWrites()
	if w.settle("mac-1"); w.countWrites() != before {
		t.Error("it writes though nothing changes")
	}
}

func TestAnOrdersProgressIsMirrored(t *testing.T) {
	w := newWorld(t, orderingPair()...)
	w.settle("mac-1")
	for _, reason := range []string{infrav1.ReasonOutOfStock, infrav1.ReasonQuotaExceeded, infrav1.ReasonOrderRejected} {
		h := w.host(orderName)
		h.Status.Conditions = []metav1.Condition{{Type: infrav1.OrderedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: "why: " + reason, LastTransitionTime: metav1.Now()}}
		w.updateStatus(h)
		w.settle("mac-1")
		if got := w.message("mac-1", infrav1.HostClaimedCondition); w.reason("mac-1", infrav1.HostClaimedCondition) != reason || got != "why: "+reason {
			t.Errorf("HostClaimed = %s %q, want the order's %s", w.reason("mac-1", infrav1.HostClaimedCondition), got, reason)
		}
		if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "Warning "+reason) {
			t.Errorf("events = %s, want %s", heard, reason)
		}
	}
}

func TestAnOrderWithoutATypeIsRefused(t *testing.T) {
	objects := orderingPair()
	objects[1].(*infrav1.ScalewayAppleSiliconMachine).Spec.Type = ""
	w := newWorld(t, objects...)
	w.settle("mac-1")
	if got := w.message("mac-1", infrav1.HostClaimedCondition); !strings.Contains(got, "spec.type") || w.machine("mac-1").Spec.HostRef != nil {
		t.Errorf("HostClaimed = %s %q", w.reason("mac-1", infrav1.HostClaimedCondition), got)
	}
}

func TestAnOrderBecomesAHost(t *testing.T) {
	w := newWorld(t, orderingPair()...)
	w.settle("mac-1")
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	w.deliver()
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.HostRef.Name != hostName || m.Spec.HostRef.ClaimToken != token || m.Status.ServerID != serverID {
		t.Fatalf("hostRef = %+v, status = %+v; want it on the server, with the same token", m.Spec.HostRef, m.Status)
	}
	w.stage("mac-1", "secret-1")
	w.settle("mac-1")
	if m := w.machine("mac-1"); m.Spec.ProviderID != host.ProviderID(zone, serverID) {
		t.Errorf("providerID = %q: %+v", m.Spec.ProviderID, m.Status.Conditions)
	}
	w.delete(w.host(hostName))
	rebuilt := poolHost(serverID)
	rebuilt.Status.Server.Name = "mac-1"
	w.create(rebuilt)
	w.settle("mac-1")
	if h := w.host(hostName); !bears(h, token) || !h.Spec.Record.Ordered {
		t.Errorf("spec = %+v; want a rebuilt Host claimed again, and remembered as ordered", h.Spec)
	}
}

// limited is Machines that order, of a profile that allows so many orders.
func limited(limit int32, names ...string) []client.Object {
	p := profile("burst")
	p.Spec.MaxOrdered = &limit
	objects := []client.Object{p}
	for _, name := range names {
		of := pair(name)
		m := of[1].(*infrav1.ScalewayAppleSiliconMachine)
		m.Spec.Acquisition, m.Spec.Type, m.Spec.ProfileRef = infrav1.Order, "M2-L", &infrav1.ProfileReference{Name: p.Name}
		objects = append(objects, of...)
	}
	return objects
}

func TestAnOrderAboveTheLimitWaits(t *testing.T) {
	w := newWorld(t, limited(1, "mac-1", "mac-2")...)
	w.settle("mac-1")
	if got := w.host(orderName).Spec.Order.Profile; got != namespace+"/burst" {
		t.Fatalf("the order counts for %q", got)
	}
	refused := func(says string) {
		t.Helper()
		result := w.settle("mac-2")
		if got := w.message("mac-2", infrav1.HostClaimedCondition); w.reason("mac-2", infrav1.HostClaimedCondition) != infrav1.ReasonOrderLimitReached || !strings.Contains(got, says) {
			t.Errorf("HostClaimed = %s %q, want it to say %q", w.reason("mac-2", infrav1.HostClaimedCondition), got, says)
		}
		if !w.gone(client.ObjectKey{Name: host.OrderName("mac-2")}, &host.Host{}) {
			t.Error("it ordered all the same")
		}
		if result.RequeueAfter != waitPoll {
			t.Errorf("it looks again after %s; nothing wakes it", result.RequeueAfter)
		}
	}
	refused("allows 1 ordered servers (spec.maxOrdered), and there are 0, with 1 more on order")
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "Warning "+infrav1.ReasonOrderLimitReached) {
		t.Errorf("events = %s", heard)
	}

	w.deliver()
	order := w.host(orderName)
	order.Finalizers = nil
	w.update(order)
	w.delete(order)
	if got := w.host(hostName).Spec.Record.OrderedFor; got != namespace+"/burst" {
		t.Errorf("the server counts for %q", got)
	}
	refused("and there are 1, with 0 more on order")

	p := &infrav1.MacNodeProfile{}
	w.get(types.NamespacedName{Namespace: namespace, Name: "burst"}, p)
	p.Spec.MaxOrdered = nil
	w.update(p)
	w.settle("mac-2")
	if w.host(host.OrderName("mac-2")).Spec.Order == nil {
		t.Error("it does not order although there is no limit any more")
	}
}

// Many Machines that order at once count each other.
func TestOrdersAtOnceKeepTheLimit(t *testing.T) {
	var names []string
	for n := range 8 {
		names = append(names, fmt.Sprintf("mac-%d", n))
	}
	w := newWorld(t, limited(3, names...)...)
	round := func() {
		var all sync.WaitGroup
		for _, name := range names {
			all.Go(func() { // a conflict with another's write is met again in the next round
				_, _ = w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
			})
		}
		all.Wait()
	}
	w.fail = func(verb string, object client.Object) error { // until all are about to order
		if _, is := object.(*host.Host); is && verb == "create" {
			return apierrors.NewServiceUnavailable("not yet")
		}
		return nil
	}
	for range 6 {
		round()
	}
	w.fail = noFault
	// Whoever is about to write its order gives the others a moment to come as far.
	w.intrude = func(verb string, object client.Object) {
		if _, is := object.(*host.Host); is && verb == "create" {
			<-time.After(100 * time.Millisecond)
		}
	}
	for range 4 {
		round()
	}
	list := &infrav1.ScalewayAppleSiliconHostList{}
	if err := w.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 3 {
		t.Errorf("%d orders, want 3", len(list.Items))
	}
}

// The order's Host is woken for, and so is the Machine whose name it bears.
func TestAnOrderWakesItsMachine(t *testing.T) {
	w := newWorld(t, append(orderingPair(), pair("mac-2")...)...)
	w.settle("mac-1")
	w.settle("mac-2")
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	server := poolHost(serverID)
	server.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: namespace, Name: "mac-1", Token: token}
	for name, h := range map[string]*host.Host{"order": w.host(orderName), "server": server} {
		if got, _ := w.r.machinesOfHost(t.Context(), nil, h); len(got) != 1 || got[0].Name != "mac-1" {
			t.Errorf("the %s wakes %v", name, got)
		}
	}
}

// A claim on a Host that is somebody else's order is no loss: the next intent waits
// until that order has ended.
func TestAnOlderOrderIsWaitedFor(t *testing.T) {
	older := &host.Host{ObjectMeta: metav1.ObjectMeta{Name: orderName}, Spec: infrav1.ScalewayAppleSiliconHostSpec{
		Zone: zone, Order: &infrav1.OrderRequest{Name: "mac-1", Type: "M2-L", Zone: zone},
		ClaimRef: &infrav1.ClaimReference{Namespace: "other", Name: "mac-1", Token: "theirs"},
	}}
	w := newWorld(t, append(orderingPair(), older)...)
	w.settle("mac-1")
	if got := w.message("mac-1", infrav1.HostClaimedCondition); w.machine("mac-1").Spec.HostRef != nil || !strings.Contains(got, orderName) {
		t.Errorf("hostRef = %+v, HostClaimed = %q", w.machine("mac-1").Spec.HostRef, got)
	}
	w.delete(w.host(orderName))
	w.settle("mac-1")
	if h := w.host(orderName); h.Spec.ClaimRef.Namespace != namespace {
		t.Errorf("claimRef = %+v, want ours once the older order has ended", h.Spec.ClaimRef)
	}
}

// An order ends at each of its stages, with a release for all that may have come
// of it.
func TestAnOrderIsCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		before   func(w *world)
		released string
		policy   infrav1.ReleasePolicy
		prefix   string
	}{
		"intent only": {func(w *world) {
			h := w.host(orderName)
			h.Finalizers = nil
			w.update(h)
			w.delete(h)
		}, orderName, infrav1.Terminate, poolName},
		"placed":           {func(*world) {}, orderName, infrav1.Terminate, poolName},
		"placed, no pool":  {func(*world) {}, orderName, infrav1.Terminate, ""},
		"placed, detached": {func(w *world) { w.annotate(infrav1.ReleasePolicyAnnotation, "detach") }, orderName, infrav1.Terminate, poolName},
		"placed, paused":   {func(w *world) { w.annotate(clusterv1.PausedAnnotation, "") }, orderName, infrav1.Terminate, poolName},
		"for the pool":     {func(w *world) { w.annotate(infrav1.ReleasePolicyAnnotation, "recycle") }, orderName, infrav1.Recycle, poolName},
		"delivered":        {func(w *world) { w.deliver() }, hostName, infrav1.Terminate, poolName},
		"delivered, named": {func(w *world) { w.deliver(); w.settle("mac-1") }, hostName, infrav1.Terminate, poolName},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, orderingPair()...)
			w.settle("mac-1")
			c.before(w)
			w.r.DefaultPoolPrefix = c.prefix
			w.r.wire()
			w.deleteByCore()
			w.settleIfThere("mac-1")
			if h := w.host(c.released); !w.machineGone("mac-1") || !host.WipeAllowed(h) || h.Spec.Release.Policy != c.policy || len(h.Finalizers) == 0 {
				t.Errorf("gone = %t, spec = %+v; want it released: %s", w.machineGone("mac-1"), h.Spec, c.policy)
			}
		})
	}
}

// The server gets its Host while its order is being cancelled: both are released.
func TestADeliveryDuringTheCancelIsReleasedToo(t *testing.T) {
	w := newWorld(t, orderingPair()...)
	w.settle("mac-1")
	w.once(func(_ string, o client.Object) bool { h, is := o.(*host.Host); return is && h.Spec.Release != nil }, w.deliver)
	w.deleteByCore()
	w.settleIfThere("mac-1")
	for _, name := range []string{orderName, hostName} {
		if h := w.host(name); !w.machineGone("mac-1") || !host.WipeAllowed(h) {
			t.Errorf("host %s: spec = %+v, want it released", name, h.Spec)
		}
	}
}

// The server may have become another's since the cache heard of it: a hostRef that moved there
// would be lost, and another server ordered.
func TestAHostRefFollowsNoServerOfAStaleCache(t *testing.T) {
	w := newWorld(t, orderingPair()...)
	w.settle("mac-1")
	ours, h := w.host(orderName).Spec.ClaimRef, poolHost(serverID)
	h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: namespace, Name: "mac-2", Token: "theirs"}
	w.create(h)
	w.r.Client = interceptor.NewClient(w.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if hosts, are := list.(*infrav1.ScalewayAppleSiliconHostList); are {
				for i := range hosts.Items {
					if hosts.Items[i].Name == hostName {
						hosts.Items[i].Spec.ClaimRef = ours
					}
				}
			}
			return err
		},
	})
	w.r.wire()
	for range 3 {
		w.visit("mac-1")
	}
	if ref := w.machine("mac-1").Spec.HostRef; ref == nil || ref.Name != orderName {
		t.Errorf("hostRef = %+v, want it on the order", ref)
	}
}

// Two managers: one is about to place the order of a Machine that the other lets
// go. It must find the order taken, or a server is made for nobody.
func TestALateOrderOfADeadMachineDoesNotLand(t *testing.T) {
	w := newWorld(t, orderingPair()...)
	w.visit("mac-1")
	w.visit("mac-1")
	second := w.reconciler(w.client)
	key := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "mac-1"}}
	w.once(func(verb string, o client.Object) bool { return verb == "create" && o.GetName() == orderName }, func() {
		w.delete(w.machine("mac-1"))
		if _, err := second.Reconcile(t.Context(), key); err != nil {
			t.Errorf("the other manager: %v", err)
		}
	})
	_, _ = w.r.Reconcile(t.Context(), key)
	if h := w.host(orderName); !w.machineGone("mac-1") || !host.WipeAllowed(h) {
		t.Errorf("gone = %t, spec = %+v; want the order there, and released", w.machineGone("mac-1"), h.Spec)
	}
}

// Hosts were deleted while a server was being ordered: the order is placed again
// with the same token, and its server is found by it.
func TestALostOrderIsPlacedAgain(t *testing.T) {
	w := newWorld(t, orderingPair()...)
	w.settle("mac-1")
	token := w.machine("mac-1").Spec.HostRef.ClaimToken
	h := w.host(orderName)
	h.Finalizers = nil
	w.update(h)
	w.delete(h)
	w.settle("mac-1")
	if h := w.host(orderName); !bears(h, token) {
		t.Errorf("claimRef = %+v, want the same token", h.Spec.ClaimRef)
	}
}

// A Machine that orders dies at each write of it, and comes up all the same: one
// order, one claim.
func TestACrashAtAnyWriteOfAnOrder(t *testing.T) {
	atAnyWrite(t, 6, func(t *testing.T, n int, after bool) bool {
		w := newWorld(t, orderingPair()...)
		f := &fault{w: w, at: n}
		f.arm(after)
		w.endure(f, func() bool {
			return !w.gone(client.ObjectKey{Name: orderName}, &host.Host{}) && w.reason("mac-1", infrav1.HostClaimedCondition) == infrav1.ReasonOrdering
		})
		f.disarm()
		w.deliver()
		f.arm(after)
		w.endure(f, func() bool { return w.reason("mac-1", infrav1.HostClaimedCondition) == machine.ReasonClaimed })
		f.disarm()
		m := w.machine("mac-1")
		if m.Spec.HostRef.Name != hostName || !host.HoldsClaim(w.host(hostName), m) {
			t.Errorf("hostRef = %+v", m.Spec.HostRef)
		}
		return f.fired
	})
}

// The same for the cancel of an order that is placed.
func TestACrashAtAnyWriteOfACancel(t *testing.T) {
	atAnyWrite(t, 1, func(t *testing.T, n int, after bool) bool {
		w := newWorld(t, orderingPair()...)
		w.settle("mac-1")
		w.delete(w.machine("mac-1"))
		f := &fault{w: w, at: n}
		f.arm(after)
		w.endure(f, func() bool { return w.machineGone("mac-1") })
		if h := w.host(orderName); !host.WipeAllowed(h) {
			t.Errorf("spec = %+v, want it released", h.Spec)
		}
		return f.fired
	})
}

// Two Machines of one name cannot both have an order; the second is told, and no
// create is repeated for ever.
func TestAnOrderThatExistsIsALostRace(t *testing.T) {
	w := newWorld(t, orderingPair()...)
	w.visit("mac-1")
	w.visit("mac-1")
	w.fail = func(verb string, o client.Object) error {
		if verb == "create" && o.GetName() == orderName {
			return apierrors.NewAlreadyExists(infrav1.GroupVersion.WithResource("hosts").GroupResource(), orderName)
		}
		return nil
	}
	if result := w.visit("mac-1"); result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
		t.Errorf("comes back after %s, want a second look", result.RequeueAfter)
	}
}
