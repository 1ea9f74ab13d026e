package node

import (
	"context"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/host"
)

const (
	zone   = "fr-par-1"
	server = "11111111-1111-4111-8111-111111111111"
)

// world is an API server with the controller.
type world struct {
	*testing.T
	api     client.Client
	clock   *clocktesting.FakePassiveClock
	events  *events.FakeRecorder
	r       *Reconciler
	deletes int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), events: events.NewFakeRecorder(10)}
	w.api = clienttest.AsServed(clienttest.NewBuilder(s).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			w.deletes++
			return c.Delete(ctx, o, opts...)
		},
	}).Build())
	w.r = &Reconciler{Client: w.api, Reader: w.api, Recorder: w.events, Clock: w.clock}
	return w
}

// look reconciles the Node mac-1 once, and says whether it is gone.
func (w *world) look() (ctrl.Result, bool) {
	w.Helper()
	result, err := w.r.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "mac-1"}})
	if err != nil {
		w.Fatal(err)
	}
	return result, apierrors.IsNotFound(w.api.Get(w.Context(), client.ObjectKey{Name: "mac-1"}, &corev1.Node{}))
}

func node(changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "mac-1", UID: "n", Labels: map[string]string{"kubernetes.io/os": "darwin", "tuist.dev/fleet": "builders"}},
		Spec:       corev1.NodeSpec{ProviderID: host.ProviderID(zone, server)},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

// bare is without a providerID, known is one that Cluster API has annotated.
func bare(n *corev1.Node) { n.Spec.ProviderID = "" }

func known(n *corev1.Node) {
	n.Annotations = map[string]string{clusterv1.ClusterNameAnnotation: "macs", clusterv1.ClusterNamespaceAnnotation: "fleet"}
}

func cluster(paused bool) []client.Object {
	return []client.Object{
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "macs"}, Spec: clusterv1.ClusterSpec{Paused: ptr.To(paused)}},
		&infrav1.ScalewayAppleSiliconCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "macs", Labels: map[string]string{clusterv1.ClusterNameLabel: "macs"}}},
	}
}

func sash(changes ...func(*host.Host)) *host.Host {
	h := &host.Host{ObjectMeta: metav1.ObjectMeta{Name: host.ObjectName(zone, server)}}
	h.Spec.Zone, h.Spec.ServerID = zone, server
	for _, change := range changes {
		change(h)
	}
	return h
}

func claim(h *host.Host) {
	h.Spec.ClaimRef = &infrav1.ClaimReference{Cluster: "macs", Namespace: "fleet", Name: "mac-1", Token: "t"}
}

func release(h *host.Host) {
	claim(h)
	h.Spec.Release = &infrav1.Release{Token: "t"}
}

func machine() *infrav1.ScalewayAppleSiliconMachine {
	return &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "mac-1"}}
}

// Whoever made it, a Node of a Mac that no Machine has is deleted at once.
func TestTheNodeOfAMacWithoutAMachineIsDeleted(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"of a host in the pool":           {node(), sash()},
		"of no host":                      {node()},
		"without a providerID":            {node(bare)},
		"without a providerID, released":  {node(bare), sash(release)},
		"released, known to Cluster API":  {node(known), sash(release)},
		"released, its wipe was observed": {node(), sash(release)},
		"of a host that is adopted": {node(), sash(release, func(h *host.Host) {
			h.Spec.ClaimRef.Namespace, h.Spec.ClaimRef.Cluster = host.NoNamespace, ""
		})},
		"of a host that a person detached": {node(), sash(func(h *host.Host) { h.Spec.Record.DetachedAt = ptr.To(metav1.NowMicro()) })},
		"by its agent's version, no labels": {node(bare, func(n *corev1.Node) {
			delete(n.Labels, "tuist.dev/fleet")
			n.Status.NodeInfo.KubeletVersion = "v1.36.4-macfleet"
		})},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(objects, cluster(false)...)...)
			if _, gone := w.look(); !gone {
				t.Fatal("the Node is still there")
			}
			if len(w.events.Events) != 1 {
				t.Error("nobody was told")
			}
		})
	}
}

func TestOtherNodesAreLeftAlone(t *testing.T) {
	moved := func(h *host.Host) { claim(h); h.Spec.Record.HandedOverAt = ptr.To(metav1.NowMicro()) }
	for name, objects := range map[string][]client.Object{
		"claimed, its Machine gone":       append(cluster(false), node(), sash(claim)),
		"handed over":                     append(cluster(false), node(), sash(moved)),
		"handed over, no providerID":      append(cluster(false), node(bare), sash(moved)),
		"of a live Machine anywhere":      append(cluster(false), node(), sash(), machine()),
		"its Cluster is paused":           append(cluster(true), node(), sash()),
		"released, its Cluster is paused": append(cluster(true), node(bare), sash(release)),
		"released, its Cluster is gone":   {node(), sash(release)},
		"no Cluster is here":              {node(), sash()},
		"of a Cluster that moved away": append(cluster(false), node(func(n *corev1.Node) {
			n.Annotations = map[string]string{clusterv1.ClusterNameAnnotation: "moved", clusterv1.ClusterNamespaceAnnotation: "fleet"}
		}), sash()),
		"linux, named as a released Mac": append(cluster(false), node(bare, func(n *corev1.Node) { n.Labels = map[string]string{"kubernetes.io/os": "linux"} }), sash(release)),
		"a control plane":                append(cluster(false), node(bare, func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} }), sash(release)),
		"another vendor's Mac":           append(cluster(false), node(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu/i-1" })),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, objects...)
			for range 3 {
				if _, gone := w.look(); gone || w.deletes > 0 {
					t.Fatal("the Node was deleted")
				}
				w.clock.SetTime(w.clock.Now().Add(time.Hour))
			}
		})
	}
}

// A backup is restored by deleting objects and creating them again. The Node that
// Cluster API knew stays meanwhile, with its guests.
func TestANodeThatWasAMachinesWaitsForItsRestoration(t *testing.T) {
	w := newWorld(t, append(cluster(false), node(known), sash())...)
	result, gone := w.look()
	if gone || result.RequeueAfter != restoring {
		t.Fatalf("gone = %t, requeue after %s", gone, result.RequeueAfter)
	}
	back := machine()
	if err := w.api.Create(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(restoring))
	if _, gone := w.look(); gone {
		t.Fatal("the Node of a restored Machine was deleted")
	}
	if err := w.api.Delete(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	if _, gone := w.look(); gone {
		t.Fatal("the time before its Machine came back counts")
	}
	w.clock.SetTime(w.clock.Now().Add(restoring))
	if _, gone := w.look(); !gone {
		t.Error("the Node is there for ever")
	}
}

// stale is a cache that knows neither Machines nor what became of the host.
type stale struct{ client.Client }

func (s stale) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	switch list.(type) {
	case *infrav1.ScalewayAppleSiliconMachineList, *infrav1.ScalewayAppleSiliconHostList:
		return nil
	}
	return s.Client.List(ctx, list, opts...)
}

func TestNothingIsDeletedFromACache(t *testing.T) {
	for name, object := range map[string]client.Object{"a Machine": machine(), "a claim": sash(claim)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(cluster(false), node(), object)...)
			w.r.Client = stale{w.api}
			if _, gone := w.look(); gone {
				t.Error("the Node was deleted on the word of a cache")
			}
		})
	}
}

// changing has the Node change between each look and the deletion that follows.
func (w *world) changing(change func(*corev1.Node)) {
	w.r.Client = interceptor.NewClient(w.api.(client.WithWatch), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			n := &corev1.Node{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), n); err != nil {
				return err
			}
			change(n)
			if err := c.Update(ctx, n); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	})
}

// Who has the key of a node can write to its Node as often as they like, and so also
// between our look and its deletion: that must not keep it.
func TestANodeThatChangesAllTheTimeIsDeleted(t *testing.T) {
	w := newWorld(t, append(cluster(false), node())...)
	beats := 0
	w.changing(func(n *corev1.Node) {
		beats++
		n.Annotations = map[string]string{"beat": strconv.Itoa(beats)}
	})
	for range 3 {
		if _, gone := w.look(); gone {
			return
		}
	}
	t.Errorf("it is still there after %d attempts to delete it", beats)
}

// A Mac may register anew between our look and the deletion, under the same name.
func TestANodeThatIsMadeAnewIsLeftAlone(t *testing.T) {
	w := newWorld(t, append(cluster(false), node())...)
	w.changing(func(n *corev1.Node) { n.UID = "another" })
	if _, gone := w.look(); gone {
		t.Error("a later Node of the name was deleted")
	}
}

// What has no providerID may turn out to be another machine's before it is deleted.
func TestANodeThatBecomesAnotherIsLeftAlone(t *testing.T) {
	w := newWorld(t, append(cluster(false), node(bare))...)
	w.changing(func(n *corev1.Node) { n.Labels = map[string]string{"kubernetes.io/os": "linux"} })
	for range 3 {
		if _, gone := w.look(); gone {
			t.Fatal("a linux node was deleted")
		}
	}
}

func TestANewNodeOfTheNameHasItsOwnTime(t *testing.T) {
	w := newWorld(t, append(cluster(false), node(known), sash())...)
	w.look()
	w.clock.SetTime(w.clock.Now().Add(restoring))
	if err := w.api.Delete(t.Context(), node()); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Create(t.Context(), node(known, func(n *corev1.Node) { n.UID = "n2" })); err != nil {
		t.Fatal(err)
	}
	if _, gone := w.look(); gone {
		t.Error("it was deleted for how long the one before it was alone")
	}
}
