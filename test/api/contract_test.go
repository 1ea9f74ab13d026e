package api

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/contract"

	bootstrapv1 "github.com/macfleet/macfleet/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Rules of Cluster API's contract v1beta2 that the shape of the kinds keeps or breaks, each
// as the API server has it. docs/contract.md lists them.

// ours are the CRDs of macfleet by kind.
func ours(t *testing.T) map[string]apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	must(t, api.List(t.Context(), crds))
	found := map[string]apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range crds.Items {
		if _, ofMacfleet := crd.Annotations["macfleet.dev/crd-version"]; ofMacfleet {
			found[crd.Spec.Names.Kind] = crd
		}
	}
	if len(found) != 12 {
		t.Fatalf("%d CRDs of ours, want 12", len(found))
	}
	return found
}

// field is the schema at a path below the whole object; an item of a list is "[]".
func field(t *testing.T, crd apiextensionsv1.CustomResourceDefinition, path string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	at := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, name := range strings.Split(path, ".") {
		if name == "[]" {
			at = at.Items.Schema
			continue
		}
		next, found := at.Properties[name]
		if !found {
			return nil
		}
		at = &next
	}
	return at
}

func TestContract_KindsThatCoreTouchesAreNamespaced(t *testing.T) {
	for kind, crd := range ours(t) {
		want := apiextensionsv1.NamespaceScoped
		if kind == "ScalewayAppleSiliconHost" { // macfleet's alone
			want = apiextensionsv1.ClusterScoped
		}
		if crd.Spec.Scope != want {
			t.Errorf("%s is %s, want %s", kind, crd.Spec.Scope, want)
		}
	}
}

func TestContract_KindsHaveAListAndMetadata(t *testing.T) {
	for kind, crd := range ours(t) {
		if crd.Spec.Names.ListKind != kind+"List" {
			t.Errorf("%s is listed as %s", kind, crd.Spec.Names.ListKind)
		}
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			if field(t, crd, name) == nil {
				t.Errorf("%s has no %s", kind, name)
			}
		}
	}
}

// Each CRD says which of its versions keeps the contract, and bears the name that core computes.
func TestContract_CRDsAreLabelledAndNamed(t *testing.T) {
	for kind, crd := range ours(t) {
		if got := crd.Labels["cluster.x-k8s.io/v1beta2"]; got != infrav1.GroupVersion.Version {
			t.Errorf("%s: contract label %q", kind, got)
		}
		if got, claims := crd.Labels["cluster.x-k8s.io/v1beta1"]; claims {
			t.Errorf("%s claims to keep v1beta1 by %q", kind, got)
		}
		if want := contract.CalculateCRDName(crd.Spec.Group, kind); crd.Name != want {
			t.Errorf("%s: core looks for %s", crd.Name, want)
		}
		if !slices.Contains([]string{infrav1.GroupVersion.Group, controlplanev1.GroupVersion.Group, bootstrapv1.GroupVersion.Group}, crd.Spec.Group) {
			t.Errorf("%s is of the group %s, in which core has no rights", kind, crd.Spec.Group)
		}
	}
}

func TestContract_ProviderID(t *testing.T) {
	id := field(t, ours(t)["ScalewayAppleSiliconMachine"], "spec.providerID")
	if id == nil || id.Type != "string" || id.MinLength == nil || *id.MinLength != 1 || id.MaxLength == nil || *id.MaxLength != 512 {
		t.Errorf("spec.providerID = %+v, want a string of 1 to 512 characters", id)
	}
}

func TestContract_Addresses(t *testing.T) {
	machine := ours(t)["ScalewayAppleSiliconMachine"]
	for _, name := range []string{"type", "address"} {
		if got := field(t, machine, "status.addresses.[]."+name); got == nil || got.Type != "string" {
			t.Errorf("status.addresses: %s = %+v", name, got)
		}
	}
}

func TestContract_FailureDomains(t *testing.T) {
	kinds := ours(t)
	if got := field(t, kinds["ScalewayAppleSiliconMachine"], "status.failureDomain"); got == nil || got.Type != "string" {
		t.Errorf("of a Machine: %+v", got)
	}
	list := field(t, kinds["ScalewayAppleSiliconCluster"], "status.failureDomains")
	if list == nil || list.Type != "array" || !slices.Equal(list.XListMapKeys, []string{"name"}) {
		t.Fatalf("of a Cluster: %+v, want a list by name", list)
	}
	for name, want := range map[string]string{"name": "string", "controlPlane": "boolean", "attributes": "object"} {
		if got, found := list.Items.Schema.Properties[name]; !found || got.Type != want {
			t.Errorf("of a Cluster: %s is %q, want %q", name, got.Type, want)
		}
	}
}

func TestContract_Initialization(t *testing.T) {
	kinds := ours(t)
	for kind, path := range map[string]string{
		"ScalewayAppleSiliconMachine": "status.initialization.provisioned",
		"ScalewayAppleSiliconCluster": "status.initialization.provisioned",
		"ExternalControlPlane":        "status.initialization.controlPlaneInitialized",
		"MacBootstrapConfig":          "status.initialization.dataSecretCreated",
	} {
		if got := field(t, kinds[kind], path); got == nil || got.Type != "boolean" {
			t.Errorf("%s: %s = %+v", kind, path, got)
		}
	}
	if got := field(t, kinds["ExternalControlPlane"], "status.externalManagedControlPlane"); got == nil || got.Type != "boolean" {
		t.Errorf("ExternalControlPlane: externalManagedControlPlane = %+v", got)
	}
}

func TestContract_Conditions(t *testing.T) {
	seen := 0
	for kind, crd := range ours(t) {
		conditions := field(t, crd, "status.conditions")
		if conditions == nil {
			continue
		}
		seen++
		if !slices.Equal(conditions.XListMapKeys, []string{"type"}) || conditions.MaxItems == nil || *conditions.MaxItems > 32 {
			t.Errorf("%s: a list by %q of at most %v", kind, conditions.XListMapKeys, conditions.MaxItems)
		}
		required := conditions.Items.Schema.Required
		slices.Sort(required)
		if want := []string{"lastTransitionTime", "message", "reason", "status", "type"}; !slices.Equal(required, want) {
			t.Errorf("%s: conditions must have %q, those of Kubernetes %q", kind, required, want)
		}
	}
	if seen < 6 {
		t.Errorf("only %d kinds have conditions", seen)
	}
}

// What they meant is a condition's reason since v1beta2, and core gives them no effect.
func TestContract_NoTerminalFailures(t *testing.T) {
	for kind, crd := range ours(t) {
		for _, name := range []string{"failureReason", "failureMessage", "ready"} {
			if field(t, crd, "status."+name) != nil {
				t.Errorf("%s has status.%s", kind, name)
			}
		}
	}
}

func TestContract_TemplatesHaveMetadataAndSpec(t *testing.T) {
	templates := 0
	for kind, crd := range ours(t) {
		if !strings.HasSuffix(kind, "Template") {
			continue
		}
		templates++
		if field(t, crd, "spec.template.spec") == nil {
			t.Errorf("%s has no spec.template.spec", kind)
		}
	}
	for _, kind := range []string{"ScalewayAppleSiliconMachineTemplate", "ScalewayAppleSiliconClusterTemplate", "MacBootstrapConfigTemplate", "ExternalControlPlaneTemplate"} {
		for _, name := range []string{"labels", "annotations"} {
			if field(t, ours(t)[kind], "spec.template.metadata."+name) == nil {
				t.Errorf("a %s cannot give %s", kind, name)
			}
		}
	}
	if templates != 5 {
		t.Errorf("%d templates", templates)
	}
}

// The name is a status, which a move drops; that it comes back is the controller's test.
func TestContract_DataSecretName(t *testing.T) {
	name := field(t, ours(t)["MacBootstrapConfig"], "status.dataSecretName")
	if name == nil || name.Type != "string" || name.MinLength == nil || *name.MinLength != 1 || name.MaxLength == nil || *name.MaxLength != 253 {
		t.Errorf("status.dataSecretName = %+v, want a string of 1 to 253 characters", name)
	}
}

// Core takes the endpoint of either: the control plane knows it, so the infrastructure need not.
func TestContract_TheControlPlaneHasTheEndpoint(t *testing.T) {
	kinds := ours(t)
	for name, want := range map[string]string{"host": "string", "port": "integer"} {
		if got := field(t, kinds["ExternalControlPlane"], "spec.controlPlaneEndpoint."+name); got == nil || got.Type != want {
			t.Errorf("ExternalControlPlane: spec.controlPlaneEndpoint.%s = %+v, want of type %s", name, got, want)
		}
	}
	if required := field(t, kinds["ScalewayAppleSiliconCluster"], "spec").Required; slices.Contains(required, "controlPlaneEndpoint") {
		t.Error("a ScalewayAppleSiliconCluster must have one, too")
	}
}

// A topology writes its version there.
func TestContract_ControlPlaneHasAVersion(t *testing.T) {
	kinds := ours(t)
	for _, path := range []string{"spec.version", "status.version"} {
		if got := field(t, kinds["ExternalControlPlane"], path); got == nil || got.Type != "string" {
			t.Errorf("%s = %+v", path, got)
		}
	}
	if field(t, kinds["ExternalControlPlaneTemplate"], "spec.template.spec.version") != nil {
		t.Error("a template has a version, which would be written over")
	}
}

// An autoscaler reads both as maps of strings, of whatever resources there are.
func TestContract_TemplatesForetellTheirNodes(t *testing.T) {
	crd := ours(t)["ScalewayAppleSiliconMachineTemplate"]
	capacity := field(t, crd, "status.capacity")
	if capacity == nil || capacity.AdditionalProperties == nil || capacity.AdditionalProperties.Schema == nil || !capacity.AdditionalProperties.Schema.XIntOrString {
		t.Errorf("status.capacity = %+v", capacity)
	}
	for _, name := range []string{"architecture", "operatingSystem"} {
		if got := field(t, crd, "status.nodeInfo."+name); got == nil || got.Type != "string" {
			t.Errorf("status.nodeInfo.%s = %+v", name, got)
		}
	}
}

// clusterctl moves what it finds by a label on CRDs, which it writes itself where it installs
// them; here the chart may have. Machines that stayed behind would lose their owners, be
// deleted for it, and have their Macs wiped.
func TestContract_MoveFindsTheKinds(t *testing.T) {
	for kind, crd := range ours(t) {
		if _, found := crd.Labels[clusterctlv1.ClusterctlLabel]; !found {
			t.Errorf("clusterctl does not see %s", kind)
		}
	}
}

// What no Cluster owns goes along by another label. Hosts do not go: the other side makes its
// own from the vendor's list.
func TestContract_MoveTakesWhatNoClusterOwns(t *testing.T) {
	for kind, crd := range ours(t) {
		_, moved := crd.Labels[clusterctlv1.ClusterctlMoveLabel]
		if want := kind == "MacNodeProfile" || kind == "ScalewayAppleSiliconRemediationTemplate"; moved != want {
			t.Errorf("%s: moved by itself: %t, want %t", kind, moved, want)
		}
	}
}
