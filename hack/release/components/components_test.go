package components

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	yamlprocessor "sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/macfleet/macfleet/hack/release/chart"
	"github.com/macfleet/macfleet/test/helm"
)

var root = filepath.Join("..", "..", "..")

const (
	digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	// secretKey is one that YAML would misread without quotes.
	secretKey = "1e5: a secret # of theirs"

	image = "ghcr.io/macfleet/manager:v0.1.0@" + digest
)

// rendered is the file, made once.
var rendered = sync.OnceValues(func() ([]byte, error) {
	binary, err := helm.Binary(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "components-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file, err := chart.Package(filepath.Join(root, "charts", "macfleet"), dir, chart.Release{Version: "v0.1.0", Digest: digest, Made: time.Unix(0, 0)})
	if err != nil {
		return nil, err
	}
	return Render(context.Background(), binary, file, filepath.Join(root, "charts", "macfleet", "crds"))
})

func file(t *testing.T) []byte {
	t.Helper()
	text, err := rendered()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func decoded(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := Decode(file(t))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// settings are clusterctl's, with the vendor's credentials among them.
func settings(t *testing.T, more map[string]string) config.Client {
	t.Helper()
	reader := config.NewMemoryReader()
	if err := reader.Init(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"SCW_ACCESS_KEY": "SCWXXXXXXXXXXXXXXXXX", "SCW_SECRET_KEY": secretKey, "SCW_DEFAULT_PROJECT_ID": "11111111-1111-1111-1111-111111111111",
	} {
		reader.Set(name, value)
	}
	for name, value := range more {
		reader.Set(name, value)
	}
	client, err := config.New(t.Context(), "", config.InjectReader(reader))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// taken is what clusterctl makes of the file.
func taken(t *testing.T) repository.Components {
	t.Helper()
	return takenWith(t, nil)
}

func takenWith(t *testing.T, more map[string]string) repository.Components {
	t.Helper()
	made, err := repository.NewComponents(repository.ComponentsInput{
		Provider:     config.NewProvider(Provider, "https://github.com/macfleet/macfleet/releases/latest/infrastructure-components.yaml", clusterctlv1.InfrastructureProviderType),
		ConfigClient: settings(t, more), Processor: yamlprocessor.NewSimpleProcessor(), RawYaml: file(t),
		Options: repository.ComponentsOptions{Version: "v0.1.0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestClusterctlTakesTheComponents(t *testing.T) {
	made := taken(t)
	if made.TargetNamespace() != Namespace || made.ManifestLabel() != "infrastructure-macfleet" {
		t.Errorf("%s in %s", made.ManifestLabel(), made.TargetNamespace())
	}
	if !slices.Equal(made.Images(), []string{image}) {
		t.Errorf("images %q, want the release's alone", made.Images())
	}
	variables := made.Variables()
	sort.Strings(variables)
	if want := []string{"SCW_ACCESS_KEY", "SCW_DEFAULT_PROJECT_ID", "SCW_SECRET_KEY"}; !slices.Equal(variables, want) {
		t.Errorf("variables %q, want %q", variables, want)
	}
}

// Where the image was pushed to is said to clusterctl, and it stays the release's.
func TestContract_AnotherRegistryKeepsTheDigest(t *testing.T) {
	made := takenWith(t, map[string]string{"images": "infrastructure-macfleet: {repository: registry.example/macfleet}"})
	if want := []string{"registry.example/macfleet/manager:v0.1.0@" + digest}; !slices.Equal(made.Images(), want) {
		t.Errorf("images %q, want %q", made.Images(), want)
	}
}

// The vendor's are named as its own tools name them, and ours for what they are of.
func TestContract_VariablesHaveTheirPrefix(t *testing.T) {
	clusterctls := []string{"CLUSTER_NAME", "NAMESPACE", "KUBERNETES_VERSION", "WORKER_MACHINE_COUNT"} // sets them itself
	variables := taken(t).Variables()
	for _, name := range []string{"cluster-template.yaml", "cluster-template-fleet-mhc.yaml", "cluster-template-topology.yaml"} {
		more, err := yamlprocessor.NewSimpleProcessor().GetVariables(template(t, name))
		if err != nil {
			t.Fatal(err)
		}
		variables = append(variables, more...)
	}
	own := 0
	for _, variable := range variables {
		if slices.Contains(clusterctls, variable) {
			continue
		}
		if own++; !slices.ContainsFunc([]string{"SCW_", "MAC_", "TART_"}, func(prefix string) bool { return strings.HasPrefix(variable, prefix) }) {
			t.Errorf("%s has none of the prefixes", variable)
		}
	}
	if own < 10 {
		t.Errorf("only %d variables of ours in %q: the search is broken", own, variables)
	}
}

// Values of variables are people's, and whatever else has a dollar must stay.
func TestVariablesChangeTheSecretAlone(t *testing.T) {
	values := settings(t, nil).Variables()
	processed, err := yamlprocessor.NewSimpleProcessor().Process(file(t), values.Get)
	if err != nil {
		t.Fatal(err)
	}
	want := string(file(t))
	for _, variable := range []string{"SCW_ACCESS_KEY", "SCW_SECRET_KEY", "SCW_DEFAULT_PROJECT_ID"} {
		value, err := values.Get(variable)
		if err != nil {
			t.Fatal(err)
		}
		want = strings.ReplaceAll(want, "${"+variable+"}", value)
	}
	if diff := cmp.Diff(want, string(processed)); diff != "" {
		t.Errorf("the file is not what it was:\n%s", diff)
	}
	for _, object := range taken(t).Objs() {
		if object.GetKind() != "Secret" {
			continue
		}
		if got, _, _ := unstructured.NestedString(object.Object, "stringData", "SCW_SECRET_KEY"); got != secretKey {
			t.Errorf("the secret key became %q", got)
		}
	}
}

func TestContract_OneNamespaceAndEverythingInIt(t *testing.T) {
	namespaces := 0
	for _, object := range decoded(t) {
		if object.GetKind() == "Namespace" {
			namespaces++
		}
		if in := object.GetNamespace(); in != "" && in != Namespace {
			t.Errorf("%s %s is in %s, out of which clusterctl takes it", object.GetKind(), object.GetName(), in)
		}
	}
	if namespaces != 1 {
		t.Errorf("%d Namespaces, want one", namespaces)
	}
}

func TestContract_EverythingIsLabelled(t *testing.T) {
	for _, object := range decoded(t) {
		labels := object.GetLabels()
		if labels[providerLabel] != "infrastructure-macfleet" {
			t.Errorf("%s %s: label %q", object.GetKind(), object.GetName(), labels[providerLabel])
		}
		text, err := object.MarshalJSON()
		if err != nil || strings.Contains(string(text), `"Helm"`) || object.GetAnnotations()["helm.sh/hook"] != "" {
			t.Errorf("%s %s is Helm's", object.GetKind(), object.GetName())
		}
	}
}

func TestContract_ManagerIsADeploymentsContainerOfThatName(t *testing.T) {
	deployments := 0
	for _, object := range decoded(t) {
		if object.GetKind() != "Deployment" {
			continue
		}
		deployments++
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) != 1 {
			t.Fatalf("%d containers, %v", len(containers), err)
		}
		container := containers[0].(map[string]any)
		if container["name"] != "manager" || container["image"] != image {
			t.Errorf("container %v of %v", container["name"], container["image"])
		}
	}
	if deployments != 1 {
		t.Errorf("%d Deployments", deployments)
	}
}

// The label of each kind that core touches agrees with metadata.yaml.
func TestContract_CRDsBearTheContractOfTheMetadata(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "config", "clusterctl", "metadata.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	metadata := &clusterctlv1.Metadata{}
	if err := decodeStrictly(text, metadata); err != nil {
		t.Fatal(err)
	}
	if metadata.APIVersion != clusterctlv1.GroupVersion.String() || metadata.Kind != "Metadata" || len(metadata.ReleaseSeries) == 0 {
		t.Fatalf("clusterctl refuses %+v", metadata)
	}
	newest := metadata.ReleaseSeries[len(metadata.ReleaseSeries)-1]
	crds := 0
	for _, object := range decoded(t) {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		crds++
		served, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions")
		if got := object.GetLabels()["cluster.x-k8s.io/"+newest.Contract]; got != served[0].(map[string]any)["name"] {
			t.Errorf("%s: the contract %s is said to be kept by %q", object.GetName(), newest.Contract, got)
		}
		if got, found := object.GetLabels()["cluster.x-k8s.io/v1beta1"]; found {
			t.Errorf("%s claims to keep v1beta1 by %q", object.GetName(), got)
		}
	}
	if crds < 8 {
		t.Errorf("%d CRDs", crds)
	}
}

// What the manager may in kube-system it may everywhere here: a policy takes the rest back.
func TestWidenedRightsAreBoundedByAPolicy(t *testing.T) {
	policies := map[string]bool{}
	for _, object := range decoded(t) {
		if strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") {
			policies[object.GetKind()+" "+object.GetName()] = true
		}
		name := object.GetName()
		if object.GetKind() != "ClusterRole" || !strings.Contains(name, "-kube-") {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
		for _, rule := range rules {
			r := rule.(map[string]any)
			if r["resourceNames"] == nil && !cmp.Equal(r["resources"], []any{"secrets"}) {
				t.Errorf("%s gives %v of all namespaces, which no policy bounds", name, r["resources"])
			}
		}
	}
	for _, want := range []string{"ValidatingAdmissionPolicy macfleet-secrets", "ValidatingAdmissionPolicyBinding macfleet-secrets", "ValidatingAdmissionPolicyBinding macfleet-bootstrap-tokens"} {
		if !policies[want] {
			t.Errorf("no %s", want)
		}
	}
}
