package chart

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// TestRulesStayWithinTheBudget asks the API server's own code, without an API server:
// a rule of a kind that is estimated to cost too much keeps the kind from being
// installed.
func TestRulesStayWithinTheBudget(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(chartDir, "crds", "*.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d CRDs, %v: the search is broken", len(files), err)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var read apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(data, &read); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		scheme.Default(&read)
		var crd apiextensions.CustomResourceDefinition
		if err := scheme.Convert(&read, &crd, nil); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range validation.ValidateCustomResourceDefinition(t.Context(), &crd) {
			t.Errorf("%s: %v", read.Name, wrong)
		}
	}
}
