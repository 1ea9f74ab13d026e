package profile

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/rollout"
	"github.com/macfleet/macfleet/internal/workload"
)

const namespace = "fleet"

func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func agent() document.Agent { return document.Agent{SHA256: fmt.Sprintf("%064d", 1), Version: "v1"} }

// world is an API server with Macs that run.
type world struct {
	t      *testing.T
	client client.WithWatch
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
	r      *Reconciler

	mu     sync.Mutex
	writes []string
	// refuses says why an object is not patched; nil for those that are.
	refuses func(client.Object) error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(start()), events: events.NewFakeRecorder(100)}
	note := func(verb string, o client.Object) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writes = append(w.writes, verb+" "+o.GetName())
	}
	w.client = clienttest.AsServed(clienttest.NewBuilder(s).WithObjects(objects...).
		WithStatusSubresource(&infrav1.ScalewayAppleSiliconMachine{}, &infrav1.MacNodeProfile{}).
		WithIndex(&corev1.Pod{}, workload.NodeNameField, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				note("patch", o)
				if w.refuses != nil {
					if err := w.refuses(o); err != nil {
						return err
					}
				}
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				note("patch "+sub+" of", o)
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build())
	w.r = New(Options{Client: w.client, Reader: w.client, Agent: agent(), Recorder: w.events, Clock: w.clock})
	return w
}

// visit looks at a profile once; an empty name is the built-in one.
func (w *world) visit(name string) ctrl.Result {
	w.t.Helper()
	result, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *world) countWrites() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.writes)
}

func (w *world) get(name string, object client.Object) {
	w.t.Helper()
	key := client.ObjectKey{Namespace: namespace, Name: name}
	if _, is := object.(*corev1.Node); is {
		key.Namespace = ""
	}
	if err := w.client.Get(w.t.Context(), key, object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) update(object client.Object) {
	w.t.Helper()
	if err := w.client.Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) machine(name string) *infrav1.ScalewayAppleSiliconMachine {
	m := &infrav1.ScalewayAppleSiliconMachine{}
	w.get(name, m)
	return m
}

func (w *world) node(name string) *corev1.Node {
	n := &corev1.Node{}
	w.get(name, n)
	return n
}

func (w *world) profile() *infrav1.MacNodeProfile {
	p := &infrav1.MacNodeProfile{}
	w.get("builders", p)
	return p
}

// status changes a Machine's status, as the machine controller does.
func (w *world) status(name string, change func(*infrav1.ScalewayAppleSiliconMachineStatus)) {
	w.t.Helper()
	m := w.machine(name)
	change(&m.Status)
	if err := w.client.Status().Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// prove says that the Mac is at the revision.
func (w *world) prove(name, revision string) {
	now := metav1.NewTime(w.clock.Now())
	w.status(name, func(s *infrav1.ScalewayAppleSiliconMachineStatus) {
		s.Applied.Revision = revision
		s.Update = infrav1.UpdateStatus{Revision: revision, ProvedAt: &now}
		s.Drift = infrav1.DriftStatus{CheckedAt: &now}
	})
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// turns are the Machines that have an update permit.
func (w *world) turns() []string {
	w.t.Helper()
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := w.client.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, m := range list.Items {
		if m.Annotations[infrav1.UpdateAnnotation] != "" {
			names = append(names, m.Name)
		}
	}
	return names
}

func (w *world) condition(kind string) metav1.Condition {
	for _, c := range w.profile().Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

func builders() *infrav1.MacNodeProfile {
	return &infrav1.MacNodeProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builders", Generation: 7}}
}

func revision() string { return rollout.Revision(builders(), agent(), nil) }

func providerID(name string) string {
	return fmt.Sprintf("scw-applesilicon://fr-par-1/%08x-1111-4111-8111-111111111111", len(name))
}

// running is a Machine of the profile at a revision, and its Node, Ready for long.
func running(name, profile, revision string) []client.Object {
	long := metav1.NewTime(start().Add(-24 * time.Hour))
	m := &infrav1.ScalewayAppleSiliconMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       infrav1.ScalewayAppleSiliconMachineSpec{ProviderID: providerID(name)},
		Status: infrav1.ScalewayAppleSiliconMachineStatus{
			Applied: infrav1.AppliedStatus{Revision: revision}, Update: infrav1.UpdateStatus{Revision: revision, ProvedAt: &long},
			Conditions: []metav1.Condition{{
				Type: infrav1.BootstrappedCondition, Status: metav1.ConditionTrue, Reason: infrav1.BootstrappedCondition, LastTransitionTime: long,
			}},
		},
	}
	m.Spec.FleetName = "macfleet-builders"
	if profile != "" {
		m.Spec.ProfileRef = &infrav1.ProfileReference{Name: profile}
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"foreign": "stays"}},
		Spec:       corev1.NodeSpec{ProviderID: providerID(name)},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: long}}},
	}
	return []client.Object{m, node}
}

// deployment asks for so many Machines of the profile.
func deployment(replicas int32) []client.Object {
	template := &infrav1.ScalewayAppleSiliconMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "template"}}
	template.Spec.Template.Spec.ProfileRef = &infrav1.ProfileReference{Name: "builders"}
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builders"}}
	md.Spec.Replicas = ptr.To(replicas)
	md.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "ScalewayAppleSiliconMachineTemplate", Name: "template",
	}
	return []client.Object{template, md}
}

func join(groups ...[]client.Object) []client.Object {
	var all []client.Object
	for _, group := range groups {
		all = append(all, group...)
	}
	return all
}
