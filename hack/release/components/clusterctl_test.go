package components

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/cluster"
)

const (
	coreVersion = "v1.14.2"
	next        = "v0.1.1"
)

// managed is a cluster that clusterctl makes a management cluster of, from files alone.
type managed struct {
	*testing.T
	client     client.Client
	clusterctl clusterctl.Client
	kubeconfig clusterctl.Kubeconfig
}

// TestContract_ClusterctlInitializesGeneratesAndUpgrades does as docs/install.md says, with
// clusterctl's own code and a real API server, on which no Pod runs. Two things stand in for
// what is not at hand offline: core's components are its CRDs and an empty Deployment, and of
// cert-manager, which is said to be there, only the kinds are.
func TestContract_ClusterctlInitializesGeneratesAndUpgrades(t *testing.T) {
	m := newManaged(t)
	m.init()
	m.hasManagerOf("v0.1.0")
	m.hasProviders("cluster-api "+coreVersion, "macfleet v0.1.0")
	for flavour, objects := range map[string]int{"": 7, "fleet-mhc": 9, "topology": 7} {
		m.takesFlavour(flavour, objects)
	}

	kept := m.fleet()
	m.hasPlan("macfleet v0.1.1")
	m.must(m.clusterctl.ApplyUpgrade(t.Context(), clusterctl.ApplyUpgradeOptions{Kubeconfig: m.kubeconfig, InfrastructureProviders: []string{Provider + ":" + next}}))
	m.hasManagerOf(next)
	m.hasProviders("cluster-api "+coreVersion, "macfleet v0.1.1")
	m.hasPlan()
	for _, object := range kept {
		uid := object.GetUID()
		m.must(m.client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		if object.GetUID() != uid || object.GetDeletionTimestamp() != nil {
			t.Errorf("the upgrade has replaced %s", object.GetName())
		}
	}
}

func (m *managed) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *managed) init() {
	m.Helper()
	_, err := m.clusterctl.Init(m.Context(), clusterctl.InitOptions{
		Kubeconfig: m.kubeconfig, CoreProvider: "cluster-api:" + coreVersion, InfrastructureProviders: []string{Provider + ":v0.1.0"},
		BootstrapProviders: []string{"-"}, ControlPlaneProviders: []string{"-"},
	})
	m.must(err)
}

func newManaged(t *testing.T) *managed {
	t.Helper()
	started, binaries := plainServer(t)
	scheme := runtime.NewScheme()
	m := &managed{T: t, kubeconfig: clusterctl.Kubeconfig{Path: started.Kubeconfig()}}
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, apiextensionsv1.AddToScheme, infrav1.AddToScheme, clusterctlv1.AddToScheme} {
		m.must(add(scheme))
	}
	var err error
	m.client, err = client.New(started.Config(), client.Options{Scheme: scheme})
	m.must(err)
	for _, kind := range []string{"Issuer", "Certificate"} {
		m.must(m.client.Create(t.Context(), anyKind("cert-manager.io", kind)))
	}
	m.clusterctl, err = clusterctl.New(t.Context(), m.repository(binaries))
	m.must(err)
	return m
}

// anyKind is a kind with any content.
func anyKind(group, kind string) *apiextensionsv1.CustomResourceDefinition {
	plural := strings.ToLower(kind) + "s"
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)},
			}}},
		},
	}
}

// repository writes the files of both providers, as docs/install.md has them, and is
// clusterctl's configuration.
func (m *managed) repository(binaries cluster.Binaries) string {
	m.Helper()
	dir := m.TempDir()
	for _, version := range []string{"v0.1.0", next} {
		m.must(os.CopyFS(filepath.Join(dir, "infrastructure-macfleet", version), os.DirFS(filepath.Join(root, "config", "clusterctl"))))
		text := bytes.ReplaceAll(file(m.T), []byte("manager:v0.1.0"), []byte("manager:"+version))
		m.write(filepath.Join(dir, "infrastructure-macfleet", version, "infrastructure-components.yaml"), text)
	}
	core := filepath.Join(dir, "cluster-api", coreVersion)
	m.write(filepath.Join(core, "core-components.yaml"), m.coreComponents(binaries))
	m.write(filepath.Join(core, "metadata.yaml"), []byte("apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries: [{major: 1, minor: 14, contract: v1beta2}]\n"))
	config := filepath.Join(dir, "clusterctl.yaml")
	m.write(config, fmt.Appendf(nil, `
providers:
  - {name: macfleet, type: InfrastructureProvider, url: %q}
  - {name: cluster-api, type: CoreProvider, url: %q}
cert-manager: {externallyProvisioned: "true"}
SCW_ACCESS_KEY: SCWXXXXXXXXXXXXXXXXX
SCW_SECRET_KEY: a-secret
SCW_DEFAULT_PROJECT_ID: 11111111-1111-1111-1111-111111111111
SCW_ZONE: fr-par-1
KUBERNETES_VERSION: v1.36.4
TART_VERSION: 2.30.0
TART_SHA256: %s
`, filepath.Join(dir, "infrastructure-macfleet", "latest", "infrastructure-components.yaml"),
		filepath.Join(dir, "cluster-api", "latest", "core-components.yaml"), strings.Repeat("0123456789abcdef", 4)))
	return config
}

func (m *managed) write(path string, text []byte) {
	m.Helper()
	m.must(os.MkdirAll(filepath.Dir(path), 0o755))
	m.must(os.WriteFile(path, text, 0o600))
}

// coreComponents are core's CRDs with its labels, and a manager that does nothing.
func (m *managed) coreComponents(binaries cluster.Binaries) []byte {
	m.Helper()
	var out bytes.Buffer
	out.WriteString(`{apiVersion: v1, kind: Namespace, metadata: {name: capi-system, labels: {cluster.x-k8s.io/provider: cluster-api}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: capi-controller-manager, namespace: capi-system, labels: {cluster.x-k8s.io/provider: cluster-api}}
spec:
  selector: {matchLabels: {app: capi}}
  template:
    metadata: {labels: {app: capi}}
    spec: {containers: [{name: manager, image: "registry.k8s.io/cluster-api/cluster-api-controller:` + coreVersion + `"}]}
`)
	crds, err := readCRDs(filepath.Join(binaries.Manifests, "crds"))
	m.must(err)
	for _, crd := range crds {
		crd.SetLabels(map[string]string{"cluster.x-k8s.io/provider": "cluster-api", "cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"})
		text, err := yaml.Marshal(crd.Object)
		m.must(err)
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes()
}

func (m *managed) hasManagerOf(version string) {
	m.Helper()
	manager := &appsv1.Deployment{}
	m.must(m.client.Get(m.Context(), client.ObjectKey{Namespace: Namespace, Name: "macfleet-manager"}, manager))
	if got := manager.Spec.Template.Spec.Containers[0].Image; !strings.Contains(got, "manager:"+version+"@") {
		m.Errorf("the manager is %s, want %s", got, version)
	}
	m.must(m.client.Get(m.Context(), client.ObjectKey{Namespace: Namespace, Name: "macfleet-vendor"}, &corev1.Secret{}))
}

func (m *managed) hasProviders(want ...string) {
	m.Helper()
	list := &clusterctlv1.ProviderList{}
	m.must(m.client.List(m.Context(), list))
	var got []string
	for _, provider := range list.Items {
		got = append(got, provider.ProviderName+" "+provider.Version)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		m.Errorf("providers %q, want %q", got, want)
	}
}

// hasPlan: what `clusterctl upgrade plan` would have newer.
func (m *managed) hasPlan(want ...string) {
	m.Helper()
	plans, err := m.clusterctl.PlanUpgrade(m.Context(), clusterctl.PlanUpgradeOptions{Kubeconfig: m.kubeconfig})
	m.must(err)
	var got []string
	for _, plan := range plans {
		for _, item := range plan.Providers {
			if item.NextVersion != "" {
				got = append(got, item.ProviderName+" "+item.NextVersion)
			}
		}
	}
	if !slices.Equal(got, want) {
		m.Errorf("planned: %q, want %q", got, want)
	}
}

// generated is what `clusterctl generate cluster` makes of a flavour.
func (m *managed) generated(flavour string) ([]unstructured.Unstructured, error) {
	template, err := m.clusterctl.GetClusterTemplate(m.Context(), clusterctl.GetClusterTemplateOptions{
		Kubeconfig: m.kubeconfig, ClusterName: "macs", TargetNamespace: Namespace, WorkerMachineCount: ptr.To[int64](3),
		ProviderRepositorySource: &clusterctl.ProviderRepositorySourceOptions{InfrastructureProvider: Provider, Flavor: flavour},
	})
	if err != nil {
		return nil, err
	}
	return template.Objs(), nil
}

// takesFlavour: what `clusterctl generate cluster` makes, the API server takes.
func (m *managed) takesFlavour(flavour string, objects int) {
	m.Helper()
	made, err := m.generated(flavour)
	if err != nil {
		m.Errorf("flavour %q: %v", flavour, err)
		return
	}
	if len(made) != objects {
		m.Errorf("flavour %q has %d objects, want %d", flavour, len(made), objects)
	}
	for i := range made {
		if err := m.client.Create(m.Context(), made[i].DeepCopy(), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			m.Errorf("flavour %q: %s %s: %v", flavour, made[i].GetKind(), made[i].GetName(), err)
		}
		if replicas, found, _ := unstructured.NestedInt64(made[i].Object, "spec", "replicas"); found && replicas != 3 {
			m.Errorf("flavour %q: %d replicas", flavour, replicas)
		}
	}
}

// fleet is what an upgrade must not touch: a Mac with its owner, and what leads to it.
func (m *managed) fleet() []client.Object {
	m.Helper()
	objects := []client.Object{
		&infrav1.ScalewayAppleSiliconHost{
			ObjectMeta: metav1.ObjectMeta{Name: "fr-par-1-11111111-1111-1111-1111-111111111111"},
			Spec: infrav1.ScalewayAppleSiliconHostSpec{
				ServerID: "11111111-1111-1111-1111-111111111111", Zone: "fr-par-1",
				ClaimRef: &infrav1.ClaimReference{Namespace: Namespace, Name: "macs-1", Token: "token"},
			},
		},
		&infrav1.ScalewayAppleSiliconMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "macs-1", Finalizers: []string{infrav1.MachineFinalizer}},
			Spec:       infrav1.ScalewayAppleSiliconMachineSpec{HostRef: &infrav1.HostReference{Name: "fr-par-1-11111111-1111-1111-1111-111111111111", ClaimToken: "token"}},
		},
		&infrav1.MacNodeProfile{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "macs"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "macs-ssh"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "macs-1-bootstrap"}},
	}
	for _, object := range objects {
		m.must(m.client.Create(m.Context(), object))
	}
	return objects
}
