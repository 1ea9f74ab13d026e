package components

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestContract_MoveTakesATopology has clusterctl write down what it would move of a Cluster of
// the flavour topology: whose owners are as core sets them.
func TestContract_MoveTakesATopology(t *testing.T) {
	m := newManaged(t)
	m.init()
	dir := t.TempDir()
	m.topology()
	m.must(m.clusterctl.Move(t.Context(), clusterctl.MoveOptions{FromKubeconfig: m.kubeconfig, Namespace: Namespace, ToDirectory: dir}))
	for _, object := range []string{
		"ClusterClass macfleet", "ScalewayAppleSiliconClusterTemplate macfleet", "ExternalControlPlaneTemplate macfleet",
		"ScalewayAppleSiliconMachineTemplate macfleet", "MacBootstrapConfigTemplate macfleet",
		"Cluster macs", "ScalewayAppleSiliconMachineTemplate macs-macs-x", "MacBootstrapConfigTemplate macs-macs-x", "MacNodeProfile macs-macs",
		"Machine macs-1", "MacBootstrapConfig macs-1", "Secret macs-1-no-bootstrap-data",
	} {
		kind, name, _ := strings.Cut(object, " ")
		if _, err := os.Stat(filepath.Join(dir, kind+"_"+Namespace+"_"+name+".yaml")); err != nil {
			t.Errorf("%s stays behind: %v", object, err)
		}
	}
}

// topology makes the flavour's objects, and what core and macfleet make of them.
func (m *managed) topology() {
	m.Helper()
	made, err := m.generated("topology")
	m.must(err)
	owners := map[string]*unstructured.Unstructured{}
	slices.SortStableFunc(made, func(a, b unstructured.Unstructured) int { return len(a.GetKind()) - len(b.GetKind()) })
	for i := range made {
		object := &made[i]
		if strings.HasSuffix(object.GetKind(), "Template") {
			owned(object, owners["ClusterClass"])
		}
		m.must(m.client.Create(m.Context(), object))
		owners[object.GetKind()] = object
	}
	for _, text := range []string{
		`{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: ScalewayAppleSiliconMachineTemplate, metadata: {name: macs-macs-x}, spec: {template: {spec: {}}}}`,
		`{apiVersion: bootstrap.cluster.x-k8s.io/v1alpha1, kind: MacBootstrapConfigTemplate, metadata: {name: macs-macs-x}, spec: {template: {spec: {}}}}`,
		`{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: macs-1}, spec: {clusterName: macs, bootstrap: {dataSecretName: macs-1-no-bootstrap-data}, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: ScalewayAppleSiliconMachine, name: macs-1}}}`,
		`{apiVersion: bootstrap.cluster.x-k8s.io/v1alpha1, kind: MacBootstrapConfig, metadata: {name: macs-1}, spec: {}}`,
		`{apiVersion: v1, kind: Secret, metadata: {name: macs-1-no-bootstrap-data}, type: cluster.x-k8s.io/secret}`,
	} {
		object := &unstructured.Unstructured{}
		m.must(yaml.Unmarshal([]byte(text), &object.Object))
		object.SetNamespace(Namespace)
		owner := map[string]string{"MacBootstrapConfig": "Machine", "Secret": "MacBootstrapConfig"}[object.GetKind()]
		if owner == "" {
			owner = "Cluster"
		}
		owned(object, owners[owner])
		m.must(m.client.Create(m.Context(), object))
		owners[object.GetKind()] = object
	}
	m.is(owners["Cluster"], `{"status":{"initialization":{"infrastructureProvisioned":true,"controlPlaneInitialized":true},"conditions":[{"type":"ControlPlaneInitialized","status":"True","reason":"Initialized","message":"","lastTransitionTime":"2026-03-01T12:00:00Z"}]}}`)
	m.is(owners["Machine"], `{"status":{"nodeRef":{"name":"macs-1"}}}`)
}

// is writes a status.
func (m *managed) is(object *unstructured.Unstructured, status string) {
	m.Helper()
	m.must(m.client.Status().Patch(m.Context(), object, client.RawPatch("application/merge-patch+json", []byte(status))))
}

func owned(object, by *unstructured.Unstructured) {
	object.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "macs"})
	reference := map[string]any{"apiVersion": by.GetAPIVersion(), "kind": by.GetKind(), "name": by.GetName(), "uid": string(by.GetUID())}
	_ = unstructured.SetNestedSlice(object.Object, []any{reference}, "metadata", "ownerReferences")
}

// The variable mac of the class is the whole of what a template may say: what a schema leaves
// out, core refuses to people, and what it has too much, the API server drops.
func TestContract_TheClassKnowsEachFieldOfATemplate(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "config", "clusterctl", "clusterclass-macfleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	class := &clusterv1.ClusterClass{}
	if err := decodeStrictly([]byte(strings.SplitN(string(text), "\n---\n", 2)[0]), class); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(class.Spec.Variables, func(v clusterv1.ClusterClassVariable) bool { return v.Name == "mac" })
	if at < 0 {
		t.Fatal("no variable mac")
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	text, err = os.ReadFile(filepath.Join(root, "charts", "macfleet", "crds", "infrastructure.cluster.x-k8s.io_scalewayapplesiliconmachinetemplates.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := decodeStrictly(text, crd); err != nil {
		t.Fatal(err)
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["template"].Properties["spec"]
	sameFields(t, "mac", class.Spec.Variables[at].Schema.OpenAPIV3Schema, schema)
}

func sameFields(t *testing.T, path string, variable clusterv1.JSONSchemaProps, template apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	if variable.Type != template.Type {
		t.Errorf("%s is of type %q, in a template %q", path, variable.Type, template.Type)
	}
	ours, theirs := slices.Sorted(maps.Keys(variable.Properties)), slices.Sorted(maps.Keys(template.Properties))
	if !slices.Equal(ours, theirs) {
		t.Errorf("%s has %q, a template %q", path, ours, theirs)
	}
	for _, name := range ours {
		sameFields(t, path+"."+name, variable.Properties[name], template.Properties[name])
	}
	if variable.Items != nil && template.Items != nil {
		sameFields(t, path+".[]", *variable.Items, *template.Items.Schema)
	}
}
