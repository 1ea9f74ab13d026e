package inventory_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	sandbox "github.com/macfleet/macfleet/sandbox/scaleway"
)

// order does the machine controller's part of an order.
func (w *world) order(kind, os string) {
	w.t.Helper()
	w.must(w.client.Create(w.ctx, &infrav1.ScalewayAppleSiliconMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-9", UID: "uid-9"},
		Spec: infrav1.ScalewayAppleSiliconMachineSpec{
			HostRef: &infrav1.HostReference{Name: "order-m-9", ClaimToken: "t-9"},
		},
	}))
	w.must(w.client.Create(w.ctx, &host.Host{
		ObjectMeta: metav1.ObjectMeta{Name: "order-m-9", Finalizers: []string{infrav1.HostFinalizer}},
		Spec: infrav1.ScalewayAppleSiliconHostSpec{
			Zone: zone, ClaimRef: &infrav1.ClaimReference{Cluster: "c", Namespace: "fleet", Name: "m-9", Token: "t-9"},
			Order: &infrav1.OrderRequest{Name: "m-9", Type: kind, OS: os, Zone: zone},
		},
	}))
}

// follow names the Host that the order became.
func (w *world) follow() *host.Host {
	w.t.Helper()
	for _, h := range w.hosts() {
		if h.Spec.ServerID == "" || !bears(&h, "t-9") {
			continue
		}
		m := &infrav1.ScalewayAppleSiliconMachine{}
		w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "m-9"}, m))
		m.Spec.HostRef.Name = h.Name
		w.must(w.client.Update(w.ctx, m))
		return &h
	}
	return nil
}

func (w *world) openOrder() *host.Host {
	w.t.Helper()
	h := &host.Host{}
	err := w.client.Get(w.ctx, client.ObjectKey{Name: "order-m-9"}, h)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return h
}

// ordered are the servers of the order's name.
func (w *world) ordered() (n int) {
	for _, s := range w.vendor.Servers() {
		if s.Name == "m-9" {
			n++
		}
	}
	return n
}

func TestAnOrderedServerBecomesAMacInUse(t *testing.T) {
	w := start(t, sandbox.Options{})
	w.order("M4-S", "tahoe")
	var made *host.Host
	w.until("in use", time.Minute, func() bool {
		made = w.follow()
		return made != nil && made.Status.Phase == infrav1.HostInUse && w.openOrder() == nil
	})
	if made.Status.Server.OSFamily != "tahoe" || made.Status.Server.Type != "M4-S" || !made.Status.Server.Delivered || !made.Spec.Record.Ordered {
		t.Errorf("got %+v", made.Status.Server)
	}
	if w.ordered() != 1 || len(w.hosts()) != 1 {
		t.Errorf("%d servers, %d hosts", w.ordered(), len(w.hosts()))
	}
	secret := &corev1.Secret{}
	w.must(w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: host.BootstrapSecretName("m-9")}, secret))
	if string(secret.Data[host.KeyAddress]) != made.Status.Server.IP || made.Status.Server.IP == "" || len(secret.Data[host.KeySudoPassword]) == 0 {
		t.Errorf("address %q of %q", secret.Data[host.KeyAddress], made.Status.Server.IP)
	}
}

func TestOneServerWhateverHappensToTheAnswerAndTheLists(t *testing.T) {
	for name, fault := range map[string]sandbox.Fault{
		"the answer is lost":            {Call: "CreateServer", When: sandbox.AfterEffect, Drop: true, Count: 1},
		"the answer is 502":             {Call: "CreateServer", When: sandbox.AfterEffect, Status: 502, Count: 1},
		"the answer is garbage":         {Call: "CreateServer", When: sandbox.AfterEffect, Garbage: sandbox.GarbageHTML, Count: 1},
		"the answer comes too late":     {Call: "CreateServer", When: sandbox.AfterEffect, Status: 504, Count: 1},
		"nothing came of it":            {Call: "CreateServer", Drop: true, Count: 1},
		"the vendor throttles us first": {Call: "CreateServer", Status: 429, Count: 1},
	} {
		for _, lag := range []time.Duration{0, 20 * time.Second} {
			t.Run(name+"/"+lag.String(), func(t *testing.T) {
				w := start(t, sandbox.Options{Knobs: sandbox.Knobs{ListLag: sandbox.Duration(lag)}})
				w.pool(1)
				w.clock.Step(time.Minute)
				_, err := w.vendor.Arm(fault)
				w.must(err)
				w.order("M4-S", "")
				w.until("delivered", 5*time.Second, func() bool { return w.follow() != nil && w.openOrder() == nil })
				for range 20 {
					w.step(5 * time.Second)
				}
				if w.ordered() != 1 || len(w.hosts()) != 2 {
					t.Errorf("%d servers, %d hosts", w.ordered(), len(w.hosts()))
				}
			})
		}
	}
}

func TestWhyThereIsNoServer(t *testing.T) {
	for _, c := range []struct {
		name, kind, os string
		arrange        func(*world)
		reason, says   string
	}{
		{"no stock", "M4-S", "", func(w *world) { w.vendor.SetStock("M4-S", sandbox.NoStock) }, infrav1.ReasonOutOfStock, "M4-S"},
		{"quota", "M4-S", "", func(w *world) { w.vendor.SetQuota("M4-S", 0) }, infrav1.ReasonQuotaExceeded, "M4-S"},
		{"unknown type", "M9-X", "", func(*world) {}, infrav1.ReasonOrderRejected, "M4-S"},
		{"unknown os", "M4-S", "jaguar", func(*world) {}, infrav1.ReasonOrderRejected, `os "jaguar"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, sandbox.Options{})
			w.pool(1)
			c.arrange(w)
			w.order(c.kind, c.os)
			for range 10 {
				w.step(10 * time.Second)
			}
			condition := meta.FindStatusCondition(w.openOrder().Status.Conditions, infrav1.OrderedCondition)
			if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != c.reason || !strings.Contains(condition.Message, c.says) {
				t.Errorf("got %+v", condition)
			}
			if asked := len(w.mutations()); asked > 1 || w.ordered() != 0 {
				t.Errorf("asked %d times, %d servers", asked, w.ordered())
			}
		})
	}
}
