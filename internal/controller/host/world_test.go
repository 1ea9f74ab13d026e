package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

const (
	zone     = "fr-par-1"
	serverID = "11111111-2222-3333-4444-555555555555"
	prefix   = "tuist-pool-"
	poolName = prefix + serverID
)

// world is one server, its host, and everything around them in memory.
type world struct {
	t         testing.TB
	ctx       context.Context
	clock     *clocktesting.FakeClock
	cloud     *cloudtest.Cloud
	client    client.WithWatch // of the test itself: its writes neither count nor fail
	inventory *Inventory
	r         *Reconciler

	mu     sync.Mutex
	writes int
	// writeFault decides how the n-th write to the API fails.
	writeFault func(n int) (before, after error)
	// quota, where it is set, refuses each new Secret with that error.
	quota error
	// killed: the fault was the manager's end; a new one goes on.
	killed bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return worldOf(t)
}

// worldOf is newWorld for benchmarks too.
func worldOf(t testing.TB) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, infrav1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{
		t: t, ctx: context.Background(), clock: clocktesting.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
		cloud: &cloudtest.Cloud{},
	}
	w.client = clienttest.AsServed(clienttest.NewBuilder(scheme).
		WithStatusSubresource(&infrav1.ScalewayAppleSiliconHost{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithObjects(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "c"}}).Build())
	opts, err := Options{Cloud: w.cloud, Clock: w.clock, DefaultPoolPrefix: prefix, OrphanReclaimZones: []string{zone}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	opts.NodeReader, opts.NodeWriter = w.client, w.client
	w.start(opts)
	w.cloud.Set(cloud.Server{
		ID: serverID, Zone: zone, Name: prefix + "1", Type: "M2-L", Status: cloud.StatusReady, Delivered: true,
		OSFamily: "tahoe", IP: "51.159.1.2", SSHUser: "m1",
	}, "firstpassword")
	return w
}

// start makes a manager that remembers nothing.
func (w *world) start(opts Options) {
	tested := clienttest.AsServed(interceptor.NewClient(w.client, w.interceptor()))
	w.inventory = newInventory(tested, opts)
	metrics, err := newMetrics(nil)
	w.must(err)
	w.r = &Reconciler{
		Options: opts, Client: tested, Reader: w.client, Inventory: w.inventory, Recorder: events.NewFakeRecorder(1000), metrics: metrics,
	}
}

// interceptor counts writes and fails those it is told to.
func (w *world) interceptor() interceptor.Funcs {
	around := func(write func() error) error {
		w.mu.Lock()
		n := w.writes
		w.writes++
		fault := w.writeFault
		w.mu.Unlock()
		var before, after error
		if fault != nil {
			before, after = fault(n)
		}
		if before != nil {
			return before
		}
		return errors.Join(write(), after)
	}
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key.Namespace == host.NoNamespace { // as a cache of one namespace does
				return fmt.Errorf("unable to get: %v because of unknown namespace for the cache", key)
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, secret := o.(*corev1.Secret); secret && w.quota != nil {
				return w.quota
			}
			return around(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return around(func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return around(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return around(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	}
}

func (w *world) written() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// host reads the host; nil when there is none.
func (w *world) host() *host.Host {
	w.t.Helper()
	h := &host.Host{}
	err := w.client.Get(w.ctx, client.ObjectKey{Name: host.ObjectName(zone, serverID)}, h)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return h
}

func (w *world) phase() infrav1.HostPhase {
	if h := w.host(); h != nil {
		return h.Status.Phase
	}
	return ""
}

func (w *world) reconcile() (reconcile.Result, error) {
	return w.r.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: host.ObjectName(zone, serverID)}})
}

// step is one inventory and one pass, and the wait that the pass asked for.
func (w *world) step() error {
	w.inventory.Sweep(w.ctx)
	result, err := w.reconcile()
	w.clock.Step(max(result.RequeueAfter, time.Second))
	if w.killed {
		w.killed = false
		w.start(w.r.Options)
	}
	return err
}

// until steps until the condition holds, and tells what it saw otherwise.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for range 60 {
		if holds() {
			return
		}
		_ = w.step() // faults are tried again, like by the work queue
	}
	w.t.Fatalf("not %s: host %+v, calls %v", what, w.host(), w.cloud.Calls())
}

func (w *world) untilPhase(phase infrav1.HostPhase) {
	w.t.Helper()
	w.until(string(phase), func() bool { return w.phase() == phase })
}

// claim does the machine controller's part of a claim.
func (w *world) claim(machine, token string) {
	w.t.Helper()
	m := &infrav1.ScalewayAppleSiliconMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: machine, UID: "uid-" + "1"},
		Spec: infrav1.ScalewayAppleSiliconMachineSpec{HostRef: &infrav1.HostReference{
			Name: host.ObjectName(zone, serverID), ClaimToken: token,
		}},
	}
	if err := w.client.Create(w.ctx, m); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
	h := w.host()
	host.Claim(h, infrav1.ClaimReference{Cluster: "c", Namespace: "fleet", Name: machine, Token: token}, w.clock.Now())
	w.must(w.client.Update(w.ctx, h))
}

// release does the machine controller's part of a release, and removes the Machine.
func (w *world) release() {
	w.t.Helper()
	h := w.host()
	h.Finalizers = []string{infrav1.HostFinalizer}
	h.Spec.Release = &infrav1.Release{
		Token: h.Spec.ClaimRef.Token, Policy: infrav1.Recycle, PoolPrefix: prefix, RequestedAt: metav1.NewMicroTime(w.clock.Now()),
	}
	w.must(w.client.Update(w.ctx, h))
	w.must(client.IgnoreNotFound(w.client.Delete(w.ctx, &infrav1.ScalewayAppleSiliconMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: h.Spec.ClaimRef.Name},
	})))
}

// confined reads the Machines of one namespace only, as the cache does with --namespace.
func confined(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*infrav1.ScalewayAppleSiliconMachineList); ok {
				opts = append(opts, client.InNamespace("fleet"))
			}
			return c.List(ctx, list, opts...)
		},
	})
}

// confine has the manager watch one namespace only.
func (w *world) confine() { w.r.Client = confined(w.r.Client.(client.WithWatch)) }

// inUse is a world whose host is claimed and shown.
func inUse(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.claim("m-1", "t-1")
	w.untilPhase(infrav1.HostInUse)
	w.cloud.Forget()
	return w
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	err := w.client.Get(w.ctx, client.ObjectKey{Namespace: "fleet", Name: "m-1-bootstrap"}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return s
}

func (w *world) reason(kind string) string {
	w.t.Helper()
	if c := meta.FindStatusCondition(w.host().Status.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

// mutations are the calls so far that changed the server.
func (w *world) mutations() []string {
	var out []string
	for _, call := range w.cloud.Calls() {
		if call.Mutating() {
			out = append(out, call.String())
		}
	}
	return out
}

func (w *world) serverName() string {
	server, _ := w.cloud.Server(serverID)
	return server.Name
}

func (w *world) reconcileOf(name string) {
	w.t.Helper()
	_, err := w.r.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	w.must(err)
}

// bears reports that the host is claimed with the token, for whomever.
func bears(h *host.Host, token string) bool {
	return h.Spec.ClaimRef != nil && h.Spec.ClaimRef.Token == token
}
