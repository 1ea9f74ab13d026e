package conformance

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/sandbox/cluster"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/clusterctl"
)

// Specs of Cluster API, in the order in which they begin.
var (
	allOfClusterAPI = []string{"a ClusterClass:", "a fleet:", `\[framework\]`, `.`}
	// moves is the one that needs two management clusters.
	moves             = "Move"
	smallOfClusterAPI = []string{"MachineDeploymentScaleSpec:"}
)

const (
	// poolOfClusterAPI is how many Macs the specs that run at once have beside those that are being wiped.
	poolOfClusterAPI = 8
	specsAtOnce      = 3
)

// everywhere has the manager watch all namespaces: each spec has one of its own.
var everywhere = []string{"--namespace="}

// TestClusterAPIsOwnSpecs runs Cluster API's end-to-end specs on a sandbox: those of a
// scale-up alone, or all that apply.
func TestClusterAPIsOwnSpecs(t *testing.T) {
	if err := mac.Supported(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	built, err := world.Build(ctx, world.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "clusterapi.test")
	build := cluster.GoCommand{Dir: filepath.Join("..", "clusterapi"), Doing: "compiling Cluster API's specs", Env: []string{"GOWORK=off"}}
	if err := build.Run(ctx, "test", "-c", "-trimpath", "-buildvcs=false", "-vet=off", "-ldflags=-s -w", "-o", binary, "."); err != nil {
		t.Fatal(err)
	}
	w, dir := startWorld(t, world.Options{Binaries: built, Hosts: poolOfClusterAPI, ManagerArgs: everywhere})
	list := specsOfClusterAPI()
	run := suite{Binary: binary, Dir: reports(t, dir), Focus: list.Small}
	specs := []string{
		"-management=" + managementCluster(t, w), "-repository=" + templatesFor(t, w, dir), "-provider=macfleet:" + providerVersion,
		"-test.run=TestClusterAPI$", "-test.timeout=0", "-ginkgo.v",
	}
	if *whole {
		run.Focus = list.Focus
	}
	if *whole || slices.ContainsFunc(*only, func(spec string) bool { return strings.Contains(spec, moves) }) {
		other, _ := startWorld(t, world.Options{Binaries: built, Beside: w, ManagerArgs: everywhere})
		specs = append(specs, "-beside="+managementCluster(t, other))
	}
	run.Args = func(dir string) []string {
		return append([]string{"-artifacts=" + filepath.Join(dir, "artifacts"), "-ginkgo.junit-report=" + filepath.Join(dir, reportFile)}, specs...)
	}
	judge(t, run, list, specsAtOnce, clusterAPIMark)
}

// specsOfClusterAPI skips none: the suite itself says which it skips, and why.
func specsOfClusterAPI() specs { return specs{Focus: allOfClusterAPI, Small: smallOfClusterAPI} }

// managementCluster makes of a sandbox what Cluster API's framework expects, and returns its
// kubeconfig: clusterctl knows of core, and a Cluster's kubeconfig lets one do all.
func managementCluster(t *testing.T, w *world.World) string {
	t.Helper()
	c := clientOf(t, w)
	if err := clusterctl.RecordCore(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	err := c.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "specs-of-cluster-api"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: world.Namespace, Name: "capi-remote"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w.Kubeconfig()
}

// templatesFor makes the repository of the released templates, for the Macs of a sandbox.
func templatesFor(t *testing.T, w *world.World, dir string) string {
	t.Helper()
	secret := &corev1.Secret{}
	if err := clientOf(t, w).Get(t.Context(), client.ObjectKey{Namespace: world.Namespace, Name: world.Fleet + "-ssh"}, secret); err != nil {
		t.Fatal(err)
	}
	fleet := key{private: secret.Data["ssh-privatekey"], public: secret.Data["ssh-publickey"]}
	config, err := writeRepository(filepath.Join("..", "..", "config", "clusterctl"), filepath.Join(dir, "repository"), fleet)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
