package bootstrap

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/macfleet/macfleet/api/bootstrap/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
)

// world is an API server that counts writes.
type world struct {
	*testing.T
	client client.WithWatch
	writes int
	filter string
}

// objects are a Cluster, a Machine of it, and the Machine's config.
type objects struct {
	cluster *clusterv1.Cluster
	machine *clusterv1.Machine
	config  *bootstrapv1.MacBootstrapConfig
	more    []client.Object
}

func newWorld(t *testing.T, changes ...func(*objects)) *world {
	t.Helper()
	o := &objects{
		cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "macs"}},
		machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m1"}, Spec: clusterv1.MachineSpec{
			ClusterName: "macs",
			Bootstrap:   clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: kind, Name: "m1"}},
		}},
		config: &bootstrapv1.MacBootstrapConfig{ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet", Name: "m1", UID: "config", Labels: map[string]string{clusterv1.ClusterNameLabel: "macs"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m1", UID: "m"}},
		}},
	}
	for _, change := range changes {
		change(o)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t}
	w.client = clienttest.AsServed(clienttest.NewBuilder(scheme).WithObjects(append(o.more, o.cluster, o.machine, o.config)...).
		WithStatusSubresource(&bootstrapv1.MacBootstrapConfig{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				w.writes++
				return c.SubResource(sub).Patch(ctx, object, p, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
				w.writes++
				return c.Create(ctx, object, opts...)
			},
		}).Build())
	return w
}

func (w *world) reconcile() (*bootstrapv1.MacBootstrapConfig, ctrl.Result) {
	w.Helper()
	r := &Reconciler{Client: w.client, Reader: w.client, WatchFilter: w.filter}
	var result ctrl.Result
	for range 2 { // the first pass may only set Paused
		var err error
		if result, err = r.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "fleet", Name: "m1"}}); err != nil {
			w.Fatal(err)
		}
	}
	config := &bootstrapv1.MacBootstrapConfig{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "fleet", Name: "m1"}, config); client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	return config, result
}

// secret is nil where there is none.
func (w *world) secret() *corev1.Secret {
	w.Helper()
	secret := &corev1.Secret{}
	err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "fleet", Name: "m1-no-bootstrap-data"}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return secret
}

func TestContract_BootstrapDataSecret(t *testing.T) {
	w := newWorld(t)
	config, _ := w.reconcile()
	secret := w.secret()
	if secret == nil {
		t.Fatal("there is no Secret")
	}
	if config.Status.DataSecretName != secret.Name {
		t.Errorf("status.dataSecretName = %q, the Secret is %s", config.Status.DataSecretName, secret.Name)
	}
	if secret.Type != clusterv1.ClusterSecretType || secret.Labels[clusterv1.ClusterNameLabel] != "macs" || !metav1.IsControlledBy(secret, config) {
		t.Errorf("the Secret is %+v of type %s", secret.ObjectMeta, secret.Type)
	}
	if diff := cmp.Diff(map[string][]byte{"value": []byte(nothing)}, secret.Data); diff != "" {
		t.Errorf("the Secret holds something (-want +got):\n%s", diff)
	}
}

func TestContract_BootstrapDataSecretCreated(t *testing.T) {
	w := newWorld(t)
	config, _ := w.reconcile()
	if !ptr.Deref(config.Status.Initialization.DataSecretCreated, false) || !conditions.IsTrue(config, bootstrapv1.ReadyCondition) {
		t.Fatalf("status = %+v", config.Status)
	}
	// A Secret that is replaced takes nothing back.
	secret := w.secret()
	secret.OwnerReferences, secret.Data = nil, map[string][]byte{dataKey: []byte("theirs")}
	if err := w.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	config, result := w.reconcile()
	if conditions.GetReason(config, bootstrapv1.ReadyCondition) != bootstrapv1.ReasonForeignSecret || result.RequeueAfter == 0 {
		t.Errorf("conditions = %+v, looks again after %s", config.Status.Conditions, result.RequeueAfter)
	}
	if !ptr.Deref(config.Status.Initialization.DataSecretCreated, false) || config.Status.DataSecretName == "" {
		t.Errorf("status = %+v", config.Status)
	}
}

// A move to another management cluster brings the Secret and drops the status.
func TestContract_BootstrapStatusIsMadeAnewAfterAMove(t *testing.T) {
	w := newWorld(t)
	config, _ := w.reconcile()
	was := config.Status.DataSecretName
	config.Status = bootstrapv1.MacBootstrapConfigStatus{}
	if err := w.client.Status().Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if config, _ = w.reconcile(); config.Status.DataSecretName != was || !ptr.Deref(config.Status.Initialization.DataSecretCreated, false) {
		t.Errorf("status = %+v, want the Secret %s", config.Status, was)
	}
}

func TestForeignSecretIsLeftAlone(t *testing.T) {
	w := newWorld(t, func(o *objects) {
		o.more = []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m1-no-bootstrap-data"}, Data: map[string][]byte{"value": []byte("theirs")}}}
	})
	config, result := w.reconcile()
	if string(w.secret().Data["value"]) != "theirs" || config.Status.DataSecretName != "" {
		t.Errorf("the Secret of others is used: %+v", config.Status)
	}
	if conditions.GetReason(config, bootstrapv1.ReadyCondition) != bootstrapv1.ReasonForeignSecret || result.RequeueAfter != tryAgain {
		t.Errorf("conditions = %+v, looks again after %s", config.Status.Conditions, result.RequeueAfter)
	}
}

// A restore may leave owners out: a Secret that says what ours say is ours again.
func TestASecretThatLostItsOwnerGetsItBack(t *testing.T) {
	for name, spoil := range map[string]func(*corev1.Secret){
		"no owner":        func(s *corev1.Secret) { s.OwnerReferences = nil },
		"another version": func(s *corev1.Secret) { s.OwnerReferences[0].APIVersion = bootstrapv1.GroupVersion.Group + "/v0" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.reconcile()
			secret := w.secret()
			want := secret.DeepCopy().OwnerReferences
			spoil(secret)
			if err := w.client.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			config, _ := w.reconcile()
			if d := cmp.Diff(want, w.secret().OwnerReferences); d != "" || !conditions.IsTrue(config, bootstrapv1.ReadyCondition) {
				t.Errorf("conditions = %+v, owners (-want +got):\n%s", config.Status.Conditions, d)
			}
		})
	}
}

func TestContract_BootstrapPausing(t *testing.T) {
	for name, change := range map[string]func(*objects){
		"the Cluster": func(o *objects) { o.cluster.Spec.Paused = ptr.To(true) },
		"the config":  func(o *objects) { o.config.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			config, _ := w.reconcile()
			if w.secret() != nil || !conditions.IsTrue(config, clusterv1.PausedCondition) {
				t.Errorf("conditions = %+v", config.Status.Conditions)
			}
		})
	}
}

func TestNothingIsMadeFor(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(*objects)
		filter string
	}{
		"a config without an owner":         {func(o *objects) { o.config.OwnerReferences = nil }, ""},
		"a Machine that is gone":            {func(o *objects) { o.config.OwnerReferences[0].Name = "m2" }, ""},
		"a Cluster that is gone":            {func(o *objects) { o.machine.Spec.ClusterName = "others" }, ""},
		"a config that is deleted":          {func(o *objects) { o.config.DeletionTimestamp, o.config.Finalizers = &now, []string{"test/kept"} }, ""},
		"a config of another macfleet":      {func(*objects) {}, "theirs"},
		"a config that is not there at all": {func(o *objects) { o.config.Name = "m2" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.change)
			w.filter = c.filter
			w.reconcile()
			if w.secret() != nil || w.writes != 0 {
				t.Errorf("%d writes", w.writes)
			}
		})
	}
}

func TestNothingNewWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.reconcile()
	w.writes = 0
	if w.reconcile(); w.writes != 0 {
		t.Errorf("%d writes", w.writes)
	}
}

func TestMachinesAndClustersWakeTheirConfigs(t *testing.T) {
	w := newWorld(t)
	r := &Reconciler{Client: w.client}
	machine, cluster := &clusterv1.Machine{}, &clusterv1.Cluster{}
	machine.Namespace, cluster.Namespace, cluster.Name = "fleet", "fleet", "macs"
	if got := ofMachine(t.Context(), machine); got != nil {
		t.Errorf("a Machine without a config wakes %v", got)
	}
	machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: kind, Name: "m1"}
	for what, got := range map[string][]ctrl.Request{"Machine": ofMachine(t.Context(), machine), "Cluster": r.ofCluster(t.Context(), cluster)} {
		if len(got) != 1 || got[0].Name != "m1" || got[0].Namespace != "fleet" {
			t.Errorf("the %s wakes %v", what, got)
		}
	}
	if cluster.Name = "others"; len(r.ofCluster(t.Context(), cluster)) != 0 {
		t.Error("another Cluster wakes the config")
	}
}
