package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/macfleet/macfleet/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
)

const (
	topologyCluster = "desk"
	topologyFleet   = topologyCluster + "-macs"
	topologyLabel   = "team.example/owner"
)

// TestContract_TopologyChangesReplaceNoMac takes a fleet of the flavour topology, as a release
// has it, through its life with the topology controller of Cluster API.
func TestContract_TopologyChangesReplaceNoMac(t *testing.T) {
	t.Parallel()
	f := start(t, world.Options{Hosts: 4})
	f.awaitPool(4)
	f.sharesTheKeyOf(world.Fleet)
	f.flavour("clusterclass-macfleet.yaml", nil)
	f.flavour("cluster-template-topology.yaml", map[string]string{"WORKER_MACHINE_COUNT": "2", "KUBERNETES_VERSION": f.kubernetesVersion()})
	f.awaitRunning(2)
	f.awaitUpToDate()
	f.awaitTopology()
	f.namesNoBootstrapData()
	was, template := f.state(), f.topologyTemplate()
	if len(was.owners) != 2 {
		t.Fatalf("owners %v, want two", was.owners)
	}

	// Another size, a label and, by a variable, another template at once.
	f.changeTopology(func(topology *clusterv1.Topology) {
		fleet := &topology.Workers.MachineDeployments[0]
		*fleet.Replicas = 3
		fleet.Metadata.Labels[topologyLabel] = "build"
		mac := &topology.Variables[1]
		mac.Value.Raw = []byte(strings.Replace(string(mac.Value.Raw), `"type":"M2-L"`, `"hostSelector":{"matchLabels":{}}`, 1))
	})
	f.await("a template that was made anew", func() (string, bool) { now := f.topologyTemplate(); return now, now != template })
	f.awaitRunning(3)
	f.awaitTopology()
	f.await("the label on each Machine", func() (string, bool) {
		for _, m := range f.machines() {
			if m.Labels[topologyLabel] != "build" {
				return m.Name + " has none", false
			}
		}
		return "", true
	})
	f.keptTheirMacs(was)
	f.dryRunsPassed("scalewayapplesiliconmachinetemplates", "macbootstrapconfigtemplates")

	used := f.owners()
	f.deletesTheTopology()
	f.awaitPool(4)
	for id := range used {
		if server := f.server(id); server.Installs != 2 || server.Name != world.PoolPrefix+id {
			t.Errorf("server %s is named %q and was installed %d times, want the pool's name and 2: delivery and one wipe", id, server.Name, server.Installs)
		}
	}
	f.checkRightsSufficed()
}

// sharesTheKeyOf gives the topology's fleet the SSH key that the pool's Macs know.
func (f *fleet) sharesTheKeyOf(other string) {
	f.Helper()
	key := &corev1.Secret{}
	f.read(other+"-ssh", key)
	f.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: topologyFleet + "-ssh", Labels: map[string]string{clusterv1.ClusterNameLabel: topologyCluster}},
		Data:       key.Data,
	})
}

// flavour creates the objects of one of clusterctl's files, with the variables' defaults where
// nothing else is said. The sandbox's Macs have their tart already.
func (f *fleet) flavour(file string, variables map[string]string) {
	f.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "clusterctl", file))
	if err != nil {
		f.Fatal(err)
	}
	known := map[string]string{"CLUSTER_NAME": topologyCluster, "NAMESPACE": world.Namespace, "SCW_ZONE": world.Zone, "TART_VERSION": "none", "TART_SHA256": "none"}
	filled := os.Expand(string(text), func(name string) string {
		name, fallback, _ := strings.Cut(name, ":=")
		for _, given := range []map[string]string{variables, known} {
			if value, found := given[name]; found {
				return value
			}
		}
		return fallback
	})
	f.eachOf(filled, func(object client.Object) error {
		object.SetNamespace(world.Namespace)
		if object.GetObjectKind().GroupVersionKind().Kind == "MacNodeProfile" {
			unstructured.RemoveNestedField(object.(*unstructured.Unstructured).Object, "spec", "tart")
		}
		return f.client.Create(f.Context(), object)
	})
}

// kubernetesVersion is the API server's, which a topology has to name.
func (f *fleet) kubernetesVersion() string {
	f.Helper()
	server, err := discovery.NewDiscoveryClientForConfig(f.world.Config())
	if err != nil {
		f.Fatal(err)
	}
	version, err := server.ServerVersion()
	if err != nil {
		f.Fatal(err)
	}
	return version.GitVersion
}

func (f *fleet) topology() *clusterv1.Cluster {
	f.Helper()
	cluster := &clusterv1.Cluster{}
	f.read(topologyCluster, cluster)
	return cluster
}

// awaitTopology waits until the topology controller has done all that it was asked for.
func (f *fleet) awaitTopology() {
	f.Helper()
	f.await("a topology that is reconciled", func() (string, bool) {
		cluster := f.topology()
		for _, c := range cluster.Status.Conditions {
			if c.Type == clusterv1.ClusterTopologyReconciledCondition {
				return c.Reason + ": " + c.Message, c.Status == metav1.ConditionTrue && c.ObservedGeneration == cluster.Generation
			}
		}
		return "no condition", false
	})
}

func (f *fleet) changeTopology(change func(*clusterv1.Topology)) {
	f.Helper()
	cluster := f.topology()
	patch := client.MergeFrom(cluster.DeepCopy())
	change(&cluster.Spec.Topology)
	if err := f.client.Patch(f.Context(), cluster, patch); err != nil {
		f.Fatalf("changing the topology: %v", err)
	}
}

// topologyTemplate names the template that Machines are made of now.
func (f *fleet) topologyTemplate() string {
	f.Helper()
	deployment := &clusterv1.MachineDeployment{}
	f.read(topologyFleet, deployment)
	return deployment.Spec.Template.Spec.InfrastructureRef.Name
}

// namesNoBootstrapData: each Machine has a config, and names the Secret that it says, which
// holds nothing that anybody could use.
func (f *fleet) namesNoBootstrapData() {
	f.Helper()
	for _, m := range f.machines() {
		config, secret := &bootstrapv1.MacBootstrapConfig{}, &corev1.Secret{}
		f.read(m.Spec.Bootstrap.ConfigRef.Name, config)
		if m.Spec.Bootstrap.DataSecretName == nil || *m.Spec.Bootstrap.DataSecretName != config.Status.DataSecretName {
			f.Errorf("Machine %s names the Secret %v, its config %q", m.Name, m.Spec.Bootstrap.DataSecretName, config.Status.DataSecretName)
			continue
		}
		f.read(config.Status.DataSecretName, secret)
		if !strings.HasPrefix(string(secret.Data["value"]), "# There is no bootstrap data") || len(secret.Data) != 1 {
			f.Errorf("the Secret %s holds %d keys", secret.Name, len(secret.Data))
		}
		if !conditionTrue(m.Status.Conditions, clusterv1.MachineBootstrapConfigReadyCondition) {
			f.Errorf("Machine %s: conditions %+v", m.Name, m.Status.Conditions)
		}
	}
}

// keptTheirMacs: who had a Mac has it still, and no Mac was wiped or given to another.
func (f *fleet) keptTheirMacs(was fleetState) {
	f.Helper()
	now := f.owners()
	for id, owner := range was.owners {
		if now[id] != owner {
			f.Errorf("server %s is of %q, was of %s", id, now[id], owner)
		}
	}
	if len(now) != len(was.owners)+1 {
		f.Errorf("owners %v, want one more than %v", now, was.owners)
	}
	for _, entry := range f.world.Vendor().Journal(was.mark) {
		if entry.Call == "ReinstallServer" || entry.Call == "DeleteServer" {
			f.Errorf("the vendor was asked for %s of %s", entry.Call, entry.ServerID)
		}
	}
}

// dryRunsPassed: the topology controller tried templates of each kind before it changed
// anything, and no try was refused.
func (f *fleet) dryRunsPassed(resources ...string) {
	f.Helper()
	passed := map[string]int{}
	for _, event := range f.audited() {
		if event.Verb != "patch" || !strings.Contains(event.RequestURI, "dryRun=All") || !ourGroup(event.ObjectRef.APIGroup) {
			continue
		}
		if event.ResponseStatus.Code != http.StatusOK {
			f.Errorf("a dry run was answered with %d: %s", event.ResponseStatus.Code, event.RequestURI)
		}
		passed[event.ObjectRef.Resource]++
	}
	for _, resource := range resources {
		if passed[resource] == 0 {
			f.Errorf("no dry run of %s; there were %v", resource, passed)
		}
	}
}

// deletesTheTopology is held up like any deletion of a Cluster with Macs, and leaves nothing
// of its fleet.
func (f *fleet) deletesTheTopology() {
	f.Helper()
	cluster := f.topology()
	if err := f.client.Delete(f.Context(), cluster); err == nil || !strings.Contains(err.Error(), "allow-delete") {
		f.Fatalf("deleting a Cluster with Macs: %v, want the guard's refusal", err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"infrastructure.cluster.x-k8s.io/allow-delete":""}}}`))
	if err := f.client.Patch(f.Context(), cluster, patch); err != nil {
		f.Fatal(err)
	}
	f.delete(cluster)
	f.awaitGone(cluster)
	of := client.MatchingLabels{clusterv1.ClusterNameLabel: topologyCluster}
	f.await("nothing of the fleet", func() (string, bool) {
		var left []string
		for _, list := range []client.ObjectList{
			&clusterv1.MachineDeploymentList{}, &clusterv1.MachineList{}, &infrav1.ScalewayAppleSiliconClusterList{},
			&infrav1.ScalewayAppleSiliconMachineTemplateList{}, &infrav1.ScalewayAppleSiliconMachineList{},
			&controlplanev1.ExternalControlPlaneList{}, &bootstrapv1.MacBootstrapConfigList{}, &bootstrapv1.MacBootstrapConfigTemplateList{},
		} {
			f.list(list, client.InNamespace(world.Namespace), of)
			left = append(left, f.names(list)...)
		}
		secrets := &corev1.SecretList{}
		f.list(secrets, client.InNamespace(world.Namespace), of)
		for _, secret := range secrets.Items {
			if strings.HasSuffix(secret.Name, "-no-bootstrap-data") {
				left = append(left, secret.Name)
			}
		}
		return fmt.Sprint(left), len(left) == 0
	})
}
