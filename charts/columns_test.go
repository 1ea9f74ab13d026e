package charts

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestWideColumnsAreNotShownUnasked: the name of a host has 45 letters, and a screen
// 120 columns.
func TestWideColumnsAreNotShownUnasked(t *testing.T) {
	wide := map[string][]string{
		"ScalewayAppleSiliconHost":    {"OS", "Server", "Billed until"},
		"ScalewayAppleSiliconMachine": {"Host", "ProviderID"},
	}
	found, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, object := range found {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
			t.Fatal(err)
		}
		for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			if !slices.Contains(wide[crd.Spec.Names.Kind], c.Name) {
				continue
			}
			seen++
			if c.Priority == 0 {
				t.Errorf("%s shows %s without -o wide", crd.Spec.Names.Kind, c.Name)
			}
		}
	}
	if seen != 5 {
		t.Errorf("%d of 5 columns found", seen)
	}
}
