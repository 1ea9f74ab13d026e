package clusterapi

import (
	"context"
	"flag"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/macfleet/macfleet/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// What package conformance says of the sandbox.
var (
	management = flag.String("management", "", "kubeconfig of the management cluster, which is the Macs' own")
	beside     = flag.String("beside", "", "kubeconfig of another management cluster, to which Clusters can be moved")
	repository = flag.String("repository", "", "clusterctl's configuration, of the repository with the templates")
	artifacts  = flag.String("artifacts", "", "folder for what the specs dump")
	provider   = flag.String("provider", "", "the infrastructure provider and its version, as clusterctl names them")
)

// The manager, whom the chart gives rights in its own namespace alone.
const (
	managerNamespace = "macfleet-system"
	managerName      = "macfleet-manager"
)

var (
	ctx   = ctrl.SetupSignalHandler()
	proxy framework.ClusterProxy
	// config is filled before specs are run, and read by them.
	config = &clusterctl.E2EConfig{Intervals: map[string][]string{
		"default/wait-cluster":                 {"5m", "500ms"},
		"default/wait-control-plane":           {"5m", "500ms"},
		"default/wait-worker-nodes":            {"10m", "500ms"},
		"default/wait-machine-upgrade":         {"15m", "1s"},
		"default/wait-machine-remediation":     {"15m", "1s"},
		"default/wait-machine-deleted":         {"10m", "1s"},
		"default/wait-deployment-available":    {"10m", "1s"},
		"default/wait-delete-cluster":          {"10m", "500ms"},
		"default/wait-machine-pool-nodes":      {"1m", "1s"},
		"default/wait-resource-version-stable": {"5m", "5s"},
		"default/wait-resource-version-rest":   {"2m", "5s"},
	}}
)

func TestClusterAPI(t *testing.T) {
	if *management == "" {
		t.Skip("make capi-specs plays it: it needs a sandbox")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Cluster API")
}

var _ = BeforeSuite(func() {
	proxy = proxyOf("management", *management)
	version, err := proxy.GetClientSet().Discovery().ServerVersion()
	Expect(err).NotTo(HaveOccurred())
	config.Variables = map[string]string{"KUBERNETES_VERSION": version.GitVersion}
})

func proxyOf(name, kubeconfig string) framework.ClusterProxy {
	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	for _, add := range []func(*runtime.Scheme) error{infrav1.AddToScheme, controlplanev1.AddToScheme, bootstrapv1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	return framework.NewClusterProxy(name, kubeconfig, scheme)
}

// folder takes what one spec dumps.
func folder(spec string) string { return filepath.Join(*artifacts, spec) }

// admit gives the manager in a spec's namespace what the chart gives it in its own.
func admit(to framework.ClusterProxy, namespace string) {
	role := &rbacv1.Role{}
	Expect(to.GetClient().Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: managerName}, role)).To(Succeed())
	Expect(to.GetClient().Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: managerName}, Rules: role.Rules})).To(Succeed())
	Expect(to.GetClient().Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: managerName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: managerName},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: managerNamespace, Name: managerName}},
	})).To(Succeed())
}

// waiters wait for the control plane as the Cluster shows it: there are no Machines of one.
var waiters = clusterctl.ControlPlaneWaiters{
	WaitForControlPlaneInitialized:   awaitCondition(clusterv1.ClusterControlPlaneInitializedCondition),
	WaitForControlPlaneMachinesReady: awaitCondition(clusterv1.ClusterControlPlaneAvailableCondition),
}

func awaitCondition(kind string) clusterctl.Waiter {
	return func(ctx context.Context, input clusterctl.ApplyCustomClusterTemplateAndWaitInput, result *clusterctl.ApplyCustomClusterTemplateAndWaitResult) {
		Eventually(func(g Gomega) {
			cluster := &clusterv1.Cluster{}
			g.Expect(input.ClusterProxy.GetClient().Get(ctx, client.ObjectKeyFromObject(result.Cluster), cluster)).To(Succeed())
			g.Expect(conditions.IsTrue(cluster, kind)).To(BeTrue(), "%s: %+v", kind, conditions.Get(cluster, kind))
		}, input.WaitForControlPlaneIntervals...).Should(Succeed())
	}
}

// made is a Cluster of a spec of ours.
type made struct {
	*clusterctl.ApplyClusterTemplateAndWaitResult
	namespace string
}

// newCluster creates a Cluster of a flavour, in a namespace of its own, which goes with the spec.
func newCluster(spec, flavor string, workers int64) made {
	namespace, cancel := framework.SetupSpecNamespace(ctx, spec, proxy, folder(spec), admit)
	m := made{new(clusterctl.ApplyClusterTemplateAndWaitResult), namespace.Name}
	m.Cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: spec}}
	DeferCleanup(func() {
		framework.DumpSpecResourcesAndCleanup(ctx, spec, proxy, *repository, folder(spec), namespace, cancel, m.Cluster, config.GetIntervals, false)
	})
	clusterctl.ApplyClusterTemplateAndWait(ctx, clusterctl.ApplyClusterTemplateAndWaitInput{
		ClusterProxy: proxy,
		ConfigCluster: clusterctl.ConfigClusterInput{
			LogFolder: folder(spec), ClusterctlConfigPath: *repository, KubeconfigPath: proxy.GetKubeconfigPath(),
			InfrastructureProvider: *provider, Flavor: flavor, Namespace: namespace.Name, ClusterName: spec,
			KubernetesVersion: config.MustGetVariable("KUBERNETES_VERSION"), ControlPlaneMachineCount: ptr.To[int64](1), WorkerMachineCount: &workers,
		},
		ControlPlaneWaiters:          waiters,
		WaitForClusterIntervals:      config.GetIntervals(spec, "wait-cluster"),
		WaitForControlPlaneIntervals: config.GetIntervals(spec, "wait-control-plane"),
		WaitForMachineDeployments:    config.GetIntervals(spec, "wait-worker-nodes"),
	}, m.ApplyClusterTemplateAndWaitResult)
	return m
}

// within is how long a spec waits for anything that nothing else is said of.
const within = 10 * time.Minute
