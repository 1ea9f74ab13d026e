package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestRequirement004_NoFieldIsNewlyRequired: an object of an older release, or one
// that a rollback brings back, has no field that was made required since. What is
// required is listed; a new line is right only where the object around it is new.
func TestRequirement004_NoFieldIsNewlyRequired(t *testing.T) {
	listed, err := os.ReadFile(filepath.Join("testdata", "required.txt"))
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(listed))
	files, err := filepath.Glob(filepath.Join("..", "..", "charts", "macfleet", "crds", "*.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d CRDs, %v: the search is broken", len(files), err)
	}
	seen := 0
	for _, file := range files {
		for _, field := range requiredFields(t, file) {
			seen++
			if !slices.Contains(known, field) {
				t.Errorf("%s is required: an object without it, of an older release, is refused. Make it optional; "+
					"only where all around it is new, add it to testdata/required.txt", field)
			}
		}
	}
	if seen < len(known)/2 {
		t.Errorf("%d required fields were found and %d are listed: the search is broken", seen, len(known))
	}
}

// requiredFields are the paths of the required fields of each version of a CRD.
func requiredFields(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var found []string
	for _, version := range crd.Spec.Versions {
		prefix := crd.Spec.Names.Kind + "/" + version.Name
		found = append(found, requiredBelow(prefix, version.Schema.OpenAPIV3Schema)...)
	}
	return found
}

func requiredBelow(path string, schema *apiextensionsv1.JSONSchemaProps) []string {
	if schema == nil {
		return nil
	}
	var found []string
	for _, name := range schema.Required {
		found = append(found, path+"."+name)
	}
	for name, property := range schema.Properties {
		found = append(found, requiredBelow(path+"."+name, &property)...)
	}
	if schema.Items != nil {
		found = append(found, requiredBelow(path+"[]", schema.Items.Schema)...)
	}
	if schema.AdditionalProperties != nil {
		found = append(found, requiredBelow(path+"{}", schema.AdditionalProperties.Schema)...)
	}
	return found
}
