package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/macfleet/macfleet/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
)

const (
	// patience bounds every wait: far above what is needed, so that only a real
	// hang fails a test on a busy machine.
	patience = 10 * time.Minute
	poll     = 200 * time.Millisecond

	// fast turns a reinstall of 17 minutes into 5 seconds.
	fast = 200
)

// fleet is a sandbox under test.
type fleet struct {
	*testing.T
	world  *world.World
	client client.Client
	dir    string
	// audit is the API server's audit log.
	audit string
	// coreRole is what the chart lets Cluster API core do with our kinds.
	coreRole *rbacv1.ClusterRole
	// released is when helm began to delete the release, and with it the manager's rights.
	released time.Time
}

// start starts a sandbox for the test, and stops it at its end.
func start(t *testing.T, options world.Options) *fleet {
	t.Helper()
	// Not t.TempDir: its name grows with the test's, and sockets have short paths.
	dir, err := os.MkdirTemp("", "mf")
	if err != nil {
		t.Fatal(err)
	}
	options.Dir, options.Binaries = dir, binaries
	if options.TimeScale == 0 {
		options.TimeScale = fast
	}
	// Without an election, unless a test says otherwise: where the API server of a busy machine is silent
	// for ten seconds, a leader ends, and what it was doing to its Macs is done again. A password that is
	// on record as tried by then costs its Mac a quarter of an hour.
	options.ManagerArgs = append([]string{"--leader-elect=false"}, options.ManagerArgs...)
	options.ManagerEnv = append(options.ManagerEnv, "KUBE_CACHE_MUTATION_DETECTOR=true")
	options.AuditLog = filepath.Join(dir, "logs", "audit.log")
	options.Logger = slog.New(slog.NewTextHandler(logFile(t, dir), nil))
	w, err := world.Start(t.Context(), options)
	if err != nil {
		t.Fatalf("starting the sandbox: %v", err)
	}
	f := &fleet{T: t, world: w, dir: dir, audit: options.AuditLog, client: newClient(t, w), coreRole: &rbacv1.ClusterRole{}}
	if !options.Bare {
		f.readCoreRole()
	}
	t.Cleanup(func() { f.stop() })
	return f
}

// readCoreRole reads what the installed chart lets core do.
func (f *fleet) readCoreRole() {
	f.Helper()
	if err := f.client.Get(f.Context(), client.ObjectKey{Name: "macfleet-capi-aggregate"}, f.coreRole); err != nil {
		f.Fatal(err)
	}
}

func logFile(t *testing.T, dir string) io.Writer {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "logs", "sandbox.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func (f *fleet) stop() {
	f.checkCommands()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.world.Stop(ctx); err != nil {
		f.Errorf("stopping the sandbox: %v", err)
	}
	f.checkRights()
	f.checkFiles()
	f.checkPanics()
	if f.Failed() {
		f.Logf("logs are kept in %s", filepath.Join(f.dir, "logs"))
		return
	}
	if err := os.RemoveAll(f.dir); err != nil {
		f.Errorf("removing the sandbox: %v", err)
	}
}

// checkPanics fails the test when a manager panicked. It does where somebody changed an
// object of its cache, see KUBE_CACHE_MUTATION_DETECTOR.
func (f *fleet) checkPanics() {
	logs, err := filepath.Glob(filepath.Join(f.dir, "logs", "manager-*.log"))
	if err != nil || len(logs) == 0 {
		f.Errorf("looking for the managers' logs: %d found, %v", len(logs), err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Error(err)
		}
		if at := bytes.Index(text, []byte("panic")); at >= 0 {
			f.Errorf("%s: %.2000s", filepath.Base(path), text[at:])
		}
	}
}

// checkFiles fails the test when the sandbox has left something that `sandbox down` would
// take for somebody else's.
func (f *fleet) checkFiles() {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.Error(err)
	}
	// The backups are what the commands of docs/migrate.md write.
	ofTests := []string{"bin", "builds", "capi.yaml", "crds.yaml", "first-system.yaml", "secrets.yaml"}
	for _, entry := range entries {
		if !world.Owns(entry.Name()) && !slices.Contains(ofTests, entry.Name()) {
			f.Errorf("the sandbox has left %s, which world.Owns does not know", entry.Name())
		}
	}
}

// checkCommands fails the test when something ran on a Mac that the simulation does
// not model: then the test proved less than it seems.
func (f *fleet) checkCommands() {
	for _, server := range f.world.Vendor().Servers() {
		machine, found := f.world.Mac(server.ID)
		if !found {
			continue
		}
		for _, execution := range machine.Unmodelled() {
			f.Errorf("server %s ran what no Mac is known to answer so: %v", server.Name, execution.Argv)
		}
	}
}

func newClient(t *testing.T, w *world.World) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, rbacv1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme, authorizationv1.AddToScheme,
		clusterv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme, bootstrapv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := w.Config()
	config.QPS, config.Burst = 200, 400
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// await waits until the condition holds; the condition says what it sees.
func (f *fleet) await(what string, condition func() (seen string, ok bool)) {
	f.Helper()
	var last string
	err := wait.PollUntilContextTimeout(f.Context(), poll, patience, true, func(context.Context) (bool, error) {
		seen, ok := condition()
		last = seen
		return ok, nil
	})
	if err != nil {
		f.Fatalf("waiting for %s: %v; last seen: %s", what, err, last)
	}
}

// scale sets the fleet's size.
func (f *fleet) scale(replicas int) {
	f.Helper()
	deployment := &clusterv1.MachineDeployment{}
	deployment.Namespace, deployment.Name = world.Namespace, world.Fleet
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := f.client.Patch(f.Context(), deployment, patch); err != nil {
		f.Fatalf("scaling to %d: %v", replicas, err)
	}
}

func (f *fleet) list(into client.ObjectList, options ...client.ListOption) {
	f.Helper()
	if err := f.client.List(f.Context(), into, options...); err != nil {
		f.Fatalf("listing: %v", err)
	}
}

func (f *fleet) hosts() []infrav1.ScalewayAppleSiliconHost {
	f.Helper()
	var list infrav1.ScalewayAppleSiliconHostList
	f.list(&list)
	return list.Items
}

func (f *fleet) machines() []clusterv1.Machine {
	f.Helper()
	var list clusterv1.MachineList
	f.list(&list, client.InNamespace(world.Namespace))
	return list.Items
}

func (f *fleet) infraMachines() []infrav1.ScalewayAppleSiliconMachine {
	f.Helper()
	var list infrav1.ScalewayAppleSiliconMachineList
	f.list(&list, client.InNamespace(world.Namespace))
	return list.Items
}

func (f *fleet) nodes() []corev1.Node {
	f.Helper()
	var list corev1.NodeList
	f.list(&list)
	return list.Items
}

func (f *fleet) pods() []corev1.Pod {
	f.Helper()
	var list corev1.PodList
	f.list(&list, client.InNamespace(metav1.NamespaceDefault))
	return list.Items
}

// inPhase counts hosts.
func (f *fleet) inPhase(phase infrav1.HostPhase) int {
	f.Helper()
	n := 0
	for _, host := range f.hosts() {
		if host.Status.Phase == phase {
			n++
		}
	}
	return n
}

// phases says in which phase how many hosts are.
func (f *fleet) phases() string {
	f.Helper()
	var seen []string
	for _, host := range f.hosts() {
		seen = append(seen, fmt.Sprintf("%s=%s", host.Status.Server.Name, host.Status.Phase))
	}
	return strings.Join(seen, " ")
}

// awaitPool waits until so many hosts are Available.
func (f *fleet) awaitPool(n int) {
	f.Helper()
	f.await(fmt.Sprintf("%d hosts Available", n), func() (string, bool) {
		return f.phases(), f.inPhase(infrav1.HostAvailable) == n
	})
}

// awaitRunning waits until the fleet is exactly so many Machines, each Running,
// Available and bound to a Ready Node with its providerID.
func (f *fleet) awaitRunning(n int) {
	f.Helper()
	f.await(fmt.Sprintf("%d Machines Running and Available with nodeRef", n), func() (string, bool) {
		nodes := map[string]corev1.Node{}
		for _, node := range f.nodes() {
			nodes[node.Name] = node
		}
		running, seen := 0, []string{}
		machines := f.machines()
		for _, m := range machines {
			node, bound := nodes[m.Status.NodeRef.Name]
			good := bound && m.Status.Phase == string(clusterv1.MachinePhaseRunning) &&
				conditionTrue(m.Status.Conditions, clusterv1.MachineAvailableCondition) &&
				m.Spec.ProviderID != "" && node.Spec.ProviderID == m.Spec.ProviderID
			if good {
				running++
			}
			seen = append(seen, fmt.Sprintf("%s: %s node=%q available=%v", m.Name, m.Status.Phase, m.Status.NodeRef.Name,
				conditionTrue(m.Status.Conditions, clusterv1.MachineAvailableCondition)))
		}
		return strings.Join(seen, "; "), running == n && len(machines) == n
	})
}

// awaitUpToDate waits until Cluster API calls each Machine up to date, which takes a
// Node that shows the Machine's version.
func (f *fleet) awaitUpToDate() {
	f.Helper()
	f.await("Machines that are up to date", func() (string, bool) {
		for _, m := range f.machines() {
			if !conditionTrue(m.Status.Conditions, clusterv1.MachineUpToDateCondition) {
				return fmt.Sprintf("%s: version %q, node %+v", m.Name, m.Spec.Version, m.Status.NodeInfo), false
			}
		}
		return "", true
	})
}

func conditionTrue(conditions []metav1.Condition, kind string) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}

// deploy runs macOS Pods.
func (f *fleet) deploy(replicas int32) {
	f.Helper()
	labels := map[string]string{"app": "macos"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "macos", Namespace: metav1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: macPod()},
		},
	}
	if err := f.client.Create(f.Context(), deployment); err != nil {
		f.Fatalf("creating the Deployment: %v", err)
	}
}

// undeploy deletes the Pods of deploy and waits until they are gone.
func (f *fleet) undeploy() {
	f.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "macos", Namespace: metav1.NamespaceDefault}}
	if err := f.client.Delete(f.Context(), deployment, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		f.Fatalf("deleting the Deployment: %v", err)
	}
	f.await("no Pods", func() (string, bool) { return fmt.Sprint(len(f.pods()), " Pods"), len(f.pods()) == 0 })
}

// macPod is an ordinary Pod for a Mac.
func macPod() corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "darwin"},
		Tolerations:                   []corev1.Toleration{{Key: "tuist.dev/macos", Operator: corev1.TolerationOpExists}},
		TerminationGracePeriodSeconds: ptr.To(int64(5)),
		Containers:                    []corev1.Container{{Name: "macos", Image: "ghcr.io/cirruslabs/macos-tahoe-xcode:26"}},
	}
}

// awaitPods waits until so many Pods are ready.
func (f *fleet) awaitPods(n int) []corev1.Pod {
	f.Helper()
	var ready []corev1.Pod
	f.await(fmt.Sprintf("%d Pods ready", n), func() (string, bool) {
		ready = nil
		var seen []string
		for _, pod := range f.pods() {
			seen = append(seen, fmt.Sprintf("%s: %s on %q", pod.Name, pod.Status.Phase, pod.Spec.NodeName))
			if pod.DeletionTimestamp == nil && podReady(pod) {
				ready = append(ready, pod)
			}
		}
		return strings.Join(seen, "; "), len(ready) == n
	})
	return ready
}

func podReady(pod corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// calls are the vendor's requests of one kind, oldest first.
func (f *fleet) calls(name string) []scaleway.Entry {
	var found []scaleway.Entry
	for _, entry := range f.world.Vendor().Journal(0) {
		if entry.Call == name {
			found = append(found, entry)
		}
	}
	return found
}

// server finds the vendor's server.
func (f *fleet) server(id string) scaleway.Server {
	f.Helper()
	server, found := f.world.Vendor().Server(id)
	if !found {
		f.Fatalf("server %s is gone", id)
	}
	return server
}
