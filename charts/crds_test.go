package charts

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
)

// Each CRD says which release's it is, and the manager may look at each: a kind that
// is new needs its name in the marker beside the check.
func TestEveryCRDIsStampedAndMayBeRead(t *testing.T) {
	found, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	markers, err := os.ReadFile("../cmd/manager/crds.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range found {
		annotations := crd.GetAnnotations()
		if _, err := version.ParseSemantic(annotations["macfleet.dev/crd-version"]); err != nil {
			t.Errorf("%s: %v", crd.GetName(), err)
		}
		if len(annotations["macfleet.dev/crd-digest"]) != 16 {
			t.Errorf("%s: digest %q", crd.GetName(), annotations["macfleet.dev/crd-digest"])
		}
		if !strings.Contains(string(markers), crd.GetName()) {
			t.Errorf("cmd/manager/crds.go: the manager has no right to get the CRD %s", crd.GetName())
		}
	}
	if len(found) < 8 {
		t.Errorf("only %d CRDs", len(found))
	}
}

// The API server's own rules, the cost of CEL among them: a CRD that it refuses is
// found without one.
func TestTheAPIServerTakesEachCRD(t *testing.T) {
	found, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range found {
		crd, internal := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
			t.Fatal(err)
		}
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
			t.Fatal(err)
		}
		for _, refusal := range validation.ValidateCustomResourceDefinition(t.Context(), internal) {
			if refusal.Field != "status.storedVersions" { // the API server's to write
				t.Errorf("%s: %v", object.GetName(), refusal)
			}
		}
	}
}
