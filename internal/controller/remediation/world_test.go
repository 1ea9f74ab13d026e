package remediation

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/host"
)

const (
	token = "a-claim"
	id    = "the-remediation"
)

var key = client.ObjectKey{Namespace: "fleet", Name: "mac-1"}

// world is a fake API server with one Machine under remediation; its vendor answers.
type world struct {
	*testing.T
	client client.Client
	clock  *clocktesting.FakeClock
	events *events.FakeRecorder
	report host.ZoneReport
	writes int
	r      *Reconciler
}

func newWorld(t *testing.T, change ...func(*objects)) *world {
	t.Helper()
	w := &world{T: t, clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), events: events.NewFakeRecorder(64)}
	o := newObjects()
	for _, c := range change {
		c(o)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w.client = clienttest.AsServed(clienttest.NewBuilder(scheme).WithObjects(o.list()...).
		WithStatusSubresource(o.list()...).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				w.writes++
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				w.writes++
				return c.Patch(ctx, obj, patch, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
				w.writes++
				return c.Update(ctx, obj, opts...)
			},
		}).Build())
	w.r = New(Options{
		Client: w.client, Reader: w.client, Recorder: w.events, Clock: w.clock,
		Zone: func(string) (host.ZoneReport, bool) { return w.report, true },
	})
	return w
}

// objects are what a Machine that is not well consists of.
type objects struct {
	cluster     *clusterv1.Cluster
	owner       *clusterv1.Machine
	machine     *infrav1.ScalewayAppleSiliconMachine
	host        *infrav1.ScalewayAppleSiliconHost
	node        *corev1.Node
	remediation *infrav1.ScalewayAppleSiliconRemediation
	check       *clusterv1.MachineHealthCheck
	others      []client.Object
}

func newObjects() *objects {
	provider := host.ProviderID("fr-par-1", "6f1f1a52-0000-4000-8000-000000000001")
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	named := meta
	named.UID = id
	named.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: key.Name, UID: "m"}}
	return &objects{
		cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "macs"}},
		owner: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: fleet}, Spec: clusterv1.MachineSpec{
			ClusterName: "macs", InfrastructureRef: clusterv1.ContractVersionedObjectReference{Kind: "ScalewayAppleSiliconMachine", Name: key.Name},
		}},
		machine: &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: meta, Spec: infrav1.ScalewayAppleSiliconMachineSpec{
			ProviderID: provider, HostRef: &infrav1.HostReference{Name: "host-1", ClaimToken: token},
		}},
		host: &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: "host-1"}, Spec: infrav1.ScalewayAppleSiliconHostSpec{
			Zone: "fr-par-1", ServerID: "6f1f1a52-0000-4000-8000-000000000001",
			ClaimRef: &infrav1.ClaimReference{Namespace: key.Namespace, Name: key.Name, Token: token},
		}},
		node:        &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: key.Name}, Spec: corev1.NodeSpec{ProviderID: provider}},
		remediation: &infrav1.ScalewayAppleSiliconRemediation{ObjectMeta: named},
		check:       looksAtDisk(),
	}
}

func (o *objects) list() []client.Object {
	list := []client.Object{o.cluster, o.owner, o.machine, o.remediation}
	if o.host != nil {
		list = append(list, o.host)
	}
	if o.node != nil {
		list = append(list, o.node)
	}
	if o.check != nil {
		list = append(list, o.check)
	}
	return append(list, o.others...)
}

// settle reconciles until nothing is written any more.
func (w *world) settle() ctrl.Result {
	w.Helper()
	for range 10 {
		before := w.writes
		result, err := w.r.Reconcile(w.Context(), ctrl.Request{NamespacedName: key})
		if err != nil {
			w.Fatal(err)
		}
		if w.writes == before {
			return result
		}
	}
	w.Fatal("it does not come to rest")
	return ctrl.Result{}
}

func (w *world) get(key client.ObjectKey, into client.Object) {
	w.Helper()
	if err := w.client.Get(w.Context(), key, into); err != nil {
		w.Fatal(err)
	}
}

func (w *world) remediation() *infrav1.ScalewayAppleSiliconRemediation {
	w.Helper()
	got := &infrav1.ScalewayAppleSiliconRemediation{}
	w.get(key, got)
	return got
}

func (w *world) host() *infrav1.ScalewayAppleSiliconHost {
	w.Helper()
	got := &infrav1.ScalewayAppleSiliconHost{}
	w.get(client.ObjectKey{Name: "host-1"}, got)
	return got
}

func (w *world) machine() *infrav1.ScalewayAppleSiliconMachine {
	w.Helper()
	got := &infrav1.ScalewayAppleSiliconMachine{}
	w.get(key, got)
	return got
}

func (w *world) owner() *clusterv1.Machine {
	w.Helper()
	got := &clusterv1.Machine{}
	w.get(key, got)
	return got
}

// is checks the step that is shown.
func (w *world) is(step, reason string) {
	w.Helper()
	got := w.remediation()
	if shown := conditions.GetReason(got, infrav1.RemediatedCondition); got.Status.Step != step || shown != reason {
		w.Fatalf("step %q with reason %q, want %q with %q: %+v", got.Status.Step, shown, step, reason, got.Status)
	}
}

func (w *world) setStatus(object client.Object) {
	w.Helper()
	if err := w.client.Status().Update(w.Context(), object); err != nil {
		w.Fatal(err)
	}
}

// rebooted does what the host controller does once the vendor took the reboot.
func (w *world) rebooted() {
	w.Helper()
	h := w.host()
	id := h.Spec.Reboot.ID
	h.Spec.Reboot = nil
	if err := w.client.Update(w.Context(), h); err != nil {
		w.Fatal(err)
	}
	h.Status.LastReboot = infrav1.RebootStatus{ID: id, At: metav1.NewMicroTime(w.clock.Now())}
	w.setStatus(h)
}

func (w *world) nodeReady() {
	w.Helper()
	w.nodeSays(corev1.ConditionTrue)
}

func (w *world) nodeSays(ready corev1.ConditionStatus) {
	w.Helper()
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: key.Name}, node)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	w.setStatus(node)
}
