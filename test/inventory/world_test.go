package inventory_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/cloud/scaleway"
	hostcontroller "github.com/macfleet/macfleet/internal/controller/host"
	"github.com/macfleet/macfleet/internal/host"
	sandbox "github.com/macfleet/macfleet/sandbox/scaleway"
)

const (
	zone   = "fr-par-1"
	prefix = "tuist-pool-"
)

// world is a simulated vendor, whose time only the test moves, and a host
// controller that talks to it.
type world struct {
	t      *testing.T
	ctx    context.Context
	clock  *clocktesting.FakeClock
	vendor *sandbox.Vendor
	client client.Client
	r      *hostcontroller.Reconciler
	// before is called before the vendor sees a request.
	before func(*http.Request)
}

func start(t *testing.T, opts sandbox.Options) *world {
	t.Helper()
	w := &world{t: t, ctx: context.Background(), clock: clocktesting.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))}
	opts.Clock, opts.Inline = w.clock, true
	w.vendor = sandbox.New(opts)
	t.Cleanup(w.vendor.Close)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if w.before != nil {
			w.before(r)
		}
		w.vendor.ServeHTTP(out, r)
	}))
	t.Cleanup(server.Close)
	vendor, err := scaleway.New(scaleway.Options{
		AccessKey: sandbox.DefaultAccessKey, SecretKey: sandbox.DefaultSecretKey, ProjectID: sandbox.DefaultProjectID, APIURL: server.URL, QPS: 10_000,
	})
	w.must(err)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, infrav1.AddToScheme, clusterv1.AddToScheme} {
		w.must(add(scheme))
	}
	w.client = clienttest.AsServed(clienttest.NewBuilder(scheme).WithStatusSubresource(&infrav1.ScalewayAppleSiliconHost{}).
		WithObjects(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "c"}}).Build())
	w.r, err = hostcontroller.New(w.client, w.client, events.NewFakeRecorder(10_000), hostcontroller.Options{
		Cloud: vendor, Clock: w.clock, DefaultPoolPrefix: prefix, OrphanReclaimZones: []string{zone},
	})
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// pool adds ready servers to the pool.
func (w *world) pool(n int) (ids []string) {
	w.t.Helper()
	for i := range n {
		server, err := w.vendor.AddServer(w.ctx, sandbox.ServerSpec{Name: prefix + string(rune('a'+i)), OS: "macos-tahoe-26.0"})
		w.must(err)
		ids = append(ids, server.ID)
	}
	return ids
}

// step is one list of the inventory and one pass over each host. It returns what
// the passes ended in, and lets the time go on.
func (w *world) step(wait time.Duration) (errs []error) {
	w.r.Inventory.Sweep(w.ctx)
	for _, h := range w.hosts() {
		_, err := w.r.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&h)})
		if err != nil {
			errs = append(errs, err)
		}
	}
	w.clock.Step(wait)
	return errs
}

func (w *world) hosts() []infrav1.ScalewayAppleSiliconHost {
	w.t.Helper()
	list := &infrav1.ScalewayAppleSiliconHostList{}
	w.must(w.client.List(w.ctx, list))
	return list.Items
}

// host reads the Host of a server; nil when there is none.
func (w *world) host(id string) *host.Host {
	w.t.Helper()
	h := &host.Host{}
	err := w.client.Get(w.ctx, client.ObjectKey{Name: host.ObjectName(zone, id)}, h)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return h
}

// phases counts the hosts by phase.
func (w *world) phases() map[infrav1.HostPhase]int {
	w.t.Helper()
	phases := map[infrav1.HostPhase]int{}
	for _, h := range w.hosts() {
		phases[h.Status.Phase]++
	}
	return phases
}

// until steps until the condition holds.
func (w *world) until(what string, wait time.Duration, holds func() bool) {
	w.t.Helper()
	for range 100 {
		if holds() {
			return
		}
		w.step(wait)
	}
	w.t.Fatalf("not %s: %+v", what, w.hosts())
}

func (w *world) reason(h *host.Host, kind string) string {
	if c := meta.FindStatusCondition(h.Status.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

// claim does the machine controller's part of a claim.
func (w *world) claim(id, machine string) {
	w.t.Helper()
	w.must(w.client.Create(w.ctx, &infrav1.ScalewayAppleSiliconMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: machine, UID: "uid-1"},
		Spec: infrav1.ScalewayAppleSiliconMachineSpec{HostRef: &infrav1.HostReference{
			Name: host.ObjectName(zone, id), ClaimToken: "t-" + machine,
		}},
	}))
	h := w.host(id)
	host.Claim(h, infrav1.ClaimReference{Cluster: "c", Namespace: "fleet", Name: machine, Token: "t-" + machine}, w.clock.Now())
	w.must(w.client.Update(w.ctx, h))
}

// bears reports that the host is claimed with the token, for whomever.
func bears(h *host.Host, token string) bool {
	return h.Spec.ClaimRef != nil && h.Spec.ClaimRef.Token == token
}
