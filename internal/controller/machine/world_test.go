package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/internal/workload"
)

const (
	namespace = "fleet"
	poolName  = "tuist-pool-"
	zone      = "fr-par-1"
	serverID  = "11111111-1111-4111-8111-111111111111"
	hostName  = zone + "-" + serverID
	otherID   = "22222222-2222-4222-8222-222222222222"
)

// start is when the tests' clocks start.
func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// world is an API server, a vendor that takes keys, and a Mac.
type world struct {
	t      testing.TB
	client client.WithWatch
	clock  *clocktesting.FakePassiveClock
	mac    *fakeMac
	keys   *fakeKeys
	events *events.FakeRecorder
	r      *Reconciler

	mu     sync.Mutex
	writes []string
	// fail makes a write fail: it is asked before each, with verb and kind.
	fail func(verb string, object client.Object) error
	// lose makes the answer to a write that was done fail.
	lose func(verb string, object client.Object) error
	// intrude runs before a write, and may write itself.
	intrude func(verb string, object client.Object)
	// report is how every zone was last listed.
	report host.ZoneReport
	// lacks: that list lacked every server that is asked about.
	lacks bool
	// checks is the interval of the checks for drift; none by default.
	checks time.Duration
}

func noFault(string, client.Object) error { return nil }

func testScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	// The kinds in use only: the fake client maps all of a scheme for each world.
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// newWorld has a Cluster whose infrastructure is there, and the given objects.
func newWorld(t testing.TB, objects ...client.Object) *world {
	t.Helper()
	w := &world{
		t: t, clock: clocktesting.NewFakePassiveClock(start()), keys: &fakeKeys{}, events: events.NewFakeRecorder(1000),
		fail: noFault, lose: noFault, report: host.ZoneReport{Hosts: 1, At: start()},
	}
	w.mac = &fakeMac{w: w, answer: hostKeyShown()}
	w.client = clienttest.AsServed(clienttest.NewBuilder(testScheme(t)).
		WithObjects(append(objects, cluster(), infraCluster(), clusterInfo())...).
		WithStatusSubresource(&infrav1.ScalewayAppleSiliconMachine{}, &infrav1.ScalewayAppleSiliconHost{}).
		WithIndex(&corev1.Pod{}, workload.NodeNameField, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(w.interceptors()).Build())
	w.restart()
	return w
}

func (w *world) interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.write(ctx, "create", o, func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.write(ctx, "update", o, func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.write(ctx, "patch", o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.write(ctx, "delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.write(ctx, "patch "+sub+" of", o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	}
}

// write does a write with the faults of the test around it. Nothing is sent with a
// context that was cancelled, as by a real client; for deadlines all is done at once.
func (w *world) write(ctx context.Context, verb string, object client.Object, do func() error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	w.mu.Lock()
	intrude, err := w.intrude, w.fail(verb, object)
	if err == nil {
		w.writes = append(w.writes, verb+" "+object.GetName())
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	if intrude != nil {
		intrude(verb, object)
	}
	if err := do(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lose(verb, object)
}

// once runs an intrusion before the first write that is picked.
func (w *world) once(picks func(verb string, object client.Object) bool, intrusion func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.intrude = func(verb string, object client.Object) {
		if !picks(verb, object) {
			return
		}
		w.mu.Lock()
		w.intrude = nil
		w.mu.Unlock()
		intrusion()
	}
}

// restart puts a new manager in the place of the old one; its jobs are lost.
func (w *world) restart() {
	if w.r != nil {
		stopJobs(w.r)
	}
	r := w.reconciler(w.client)
	w.r = r
	w.t.Cleanup(func() { stopJobs(r) })
}

// stopJobs ends the jobs of a manager, and waits until none of them runs.
func stopJobs(r *Reconciler) {
	pools := []*job.Pool{r.pushes, r.leaves, r.checks}
	for _, p := range pools {
		p.Stop()
	}
	for _, p := range pools {
		p.Wait()
	}
}

func (w *world) reconciler(reader client.Reader) *Reconciler {
	build, err := remote.NewBuild([]byte("agent"))
	if err != nil {
		w.t.Fatal(err)
	}
	return New(Options{
		Client: w.client, Reader: reader, Keys: w.keys, Macs: w.mac, Agent: push.Agent{Version: "v1", Build: build},
		Zone:              func(string) (host.ZoneReport, bool) { return w.report, true },
		Lacks:             func(string, string) bool { return w.lacks },
		DefaultPoolPrefix: poolName, Recorder: w.events, Clock: w.clock, DriftCheckInterval: w.checks,
		Pause: func(ctx context.Context, d time.Duration) error {
			w.clock.SetTime(w.clock.Now().Add(d))
			return ctx.Err()
		},
	})
}

// visit reconciles the Machine once.
func (w *world) visit(name string) ctrl.Result {
	w.t.Helper()
	result, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	if err != nil {
		w.t.Fatalf("reconciling %s: %v", name, err)
	}
	return result
}

// settle reconciles until the Machine neither changes nor waits for a job.
func (w *world) settle(name string) ctrl.Result {
	w.t.Helper()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	for range 50 {
		before, jobs := w.countWrites(), w.jobStates(key)
		result := w.visit(name)
		if w.awaitJobs(key) || w.jobStates(key) != jobs {
			continue
		}
		if w.countWrites() == before {
			return result
		}
	}
	w.t.Fatal("the Machine does not settle")
	return ctrl.Result{}
}

// jobStates tells one job from another, also from one that ended at once, or after a visit
// that still saw it run.
func (w *world) jobStates(key types.NamespacedName) string {
	states := ""
	for _, pool := range []*job.Pool{w.r.pushes, w.r.leaves, w.r.checks} {
		s, _ := pool.Look(key)
		states += fmt.Sprintln(s.ID, s.Done, s.Recorded, s.Answered, s.Shown)
	}
	return states
}

// awaitJobs waits for a running job to end, and reports whether there was one.
func (w *world) awaitJobs(key types.NamespacedName) bool {
	w.t.Helper()
	waited := false
	for _, pool := range []*job.Pool{w.r.pushes, w.r.leaves, w.r.checks} {
		for {
			run, ok := pool.Look(key)
			if !ok || run.Done || w.mac.isHolding() {
				break
			}
			waited = true
			select {
			case <-pool.Wakeups():
			case <-time.After(time.Minute):
				w.t.Fatal("a job does not end")
			}
		}
	}
	return waited
}

func (w *world) countWrites() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.writes)
}

func (w *world) machine(name string) *infrav1.ScalewayAppleSiliconMachine {
	w.t.Helper()
	m := &infrav1.ScalewayAppleSiliconMachine{}
	w.get(client.ObjectKey{Namespace: namespace, Name: name}, m)
	return m
}

func (w *world) host(name string) *host.Host {
	w.t.Helper()
	h := &host.Host{}
	w.get(client.ObjectKey{Name: name}, h)
	return h
}

func (w *world) get(key client.ObjectKey, object client.Object) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), key, object); err != nil {
		w.t.Fatalf("reading %s: %v", key, err)
	}
}

func (w *world) gone(key client.ObjectKey, object client.Object) bool {
	return apierrors.IsNotFound(w.client.Get(w.t.Context(), key, object))
}

func (w *world) machineGone(name string) bool {
	return w.gone(client.ObjectKey{Namespace: namespace, Name: name}, &infrav1.ScalewayAppleSiliconMachine{})
}

func (w *world) secret(name string) map[string]string {
	w.t.Helper()
	secret := &corev1.Secret{}
	w.get(client.ObjectKey{Namespace: namespace, Name: name}, secret)
	out := map[string]string{}
	for key, value := range secret.Data {
		out[key] = string(value)
	}
	return out
}

// tokens are the ids of the bootstrap tokens that are valid.
func (w *world) tokens() []string {
	w.t.Helper()
	list := &corev1.SecretList{}
	if err := w.client.List(w.t.Context(), list, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		w.t.Fatal(err)
	}
	var ids []string
	for _, secret := range list.Items {
		ids = append(ids, string(secret.Data["token-id"]))
	}
	return ids
}

func (w *world) update(object client.Object) {
	w.t.Helper()
	if err := w.client.Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) updateStatus(object client.Object) {
	w.t.Helper()
	if err := w.client.Status().Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(object client.Object) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// stage does what the host controller does for a claim: the server's name is
// shown, and its credentials are in the Machine's Secret.
func (w *world) stage(name, password string) {
	w.t.Helper()
	m := w.machine(name)
	h := w.host(m.Spec.HostRef.Name)
	data := map[string][]byte{
		host.KeySSHUsername: []byte("m1"), host.KeyAddress: []byte("10.0.0.1"), host.KeyClaimToken: []byte(m.Spec.HostRef.ClaimToken),
		host.KeyInstallEpoch: []byte("1"), host.KeySudoPassword: []byte(password),
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: host.BootstrapSecretName(name)}}
	if w.gone(client.ObjectKeyFromObject(secret), secret) {
		secret.Data = data
		w.create(secret)
	} else {
		for key, value := range data {
			secret.Data[key] = value
		}
		w.update(secret)
	}
	h.Status.Server.Name = name
	h.Status.Conditions = []metav1.Condition{{Type: infrav1.NameInSyncCondition, Status: metav1.ConditionTrue, Reason: "NameInSync", LastTransitionTime: metav1.Now()}}
	w.updateStatus(h)
}

// join does what the agent does with a permit: the Node appears, and is Ready.
func (w *world) join(name string) *corev1.Node {
	w.t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: host.ProviderID(zone, serverID)},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	w.create(node)
	return node
}

// running brings a Machine to the end of its way: a Node that is Ready.
func (w *world) running(name string) {
	w.t.Helper()
	w.settle(name)
	w.stage(name, "secret-1")
	w.settle(name)
	w.join(name)
	w.settle(name)
	if got := w.machine(name).Status.Phase; got != machine.PhaseRunning {
		w.t.Fatalf("phase = %s, want %s: %+v", got, machine.PhaseRunning, w.machine(name).Status.Conditions)
	}
}

func (w *world) reason(name, condition string) string {
	w.t.Helper()
	for _, c := range w.machine(name).Status.Conditions {
		if c.Type == condition {
			return c.Reason
		}
	}
	return ""
}

// heard empties the recorder.
func (w *world) heard() []string {
	var out []string
	for {
		select {
		case event := <-w.events.Events:
			out = append(out, event)
		default:
			return out
		}
	}
}

func cluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "macs"},
		Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "ScalewayAppleSiliconCluster", Name: "macs"},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "ExternalControlPlane", Name: "macs"},
		},
		Status: clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: ptr.To(true)}},
	}
}

func infraCluster() *infrav1.ScalewayAppleSiliconCluster {
	return &infrav1.ScalewayAppleSiliconCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "macs"},
		Spec:       infrav1.ScalewayAppleSiliconClusterSpec{Zones: []string{zone}},
	}
}

func clusterInfo() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"","cluster":{"server":"https://api.example:6443","certificate-authority-data":"Y2E="}}]}`},
	}
}

// pair is a Machine of core's and the infra machine that it owns.
func pair(name string) []client.Object {
	labels := map[string]string{clusterv1.ClusterNameLabel: "macs", clusterv1.MachineDeploymentNameLabel: "builders"}
	owner := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("core-" + name), Labels: labels},
		Spec:       clusterv1.MachineSpec{ClusterName: "macs"},
	}
	infra := &infrav1.ScalewayAppleSiliconMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("infra-" + name), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: owner.UID}},
		},
	}
	return []client.Object{owner, infra}
}

// poolHost is a host that can be claimed.
func poolHost(id string) *infrav1.ScalewayAppleSiliconHost {
	return &infrav1.ScalewayAppleSiliconHost{
		ObjectMeta: metav1.ObjectMeta{Name: host.ObjectName(zone, id)},
		Spec:       infrav1.ScalewayAppleSiliconHostSpec{ServerID: id, Zone: zone},
		Status: infrav1.ScalewayAppleSiliconHostStatus{
			Phase: infrav1.HostAvailable,
			Server: infrav1.ServerStatus{
				Name: poolName + id, Status: string(cloud.StatusReady), Type: "M2-L", Delivered: true, IP: "10.0.0.1", OSFamily: "tahoe",
			},
		},
	}
}

// bears reports that the host is claimed with the token, for whomever.
func bears(h *host.Host, token string) bool {
	return h.Spec.ClaimRef != nil && h.Spec.ClaimRef.Token == token
}
