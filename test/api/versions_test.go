package api

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/macfleet/macfleet/charts"
)

// TestObjectsOfEachVersionAreTaken: what an earlier version wrote is taken as it stands,
// without a word about a field, and read back whole.
func TestObjectsOfEachVersionAreTaken(t *testing.T) {
	for _, object := range objectsOfVersions(t) {
		stored := object.DeepCopy()
		strictly := &client.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
		if err := api.Create(t.Context(), stored, strictly); err != nil {
			t.Errorf("%s %s is refused: %v", object.GetKind(), object.GetName(), err)
			continue
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(object.Object["spec"], stored.Object["spec"]); diff != "" {
			t.Errorf("%s %s is stored otherwise (-written +stored):\n%s", object.GetKind(), object.GetName(), diff)
		}
		// A build that writes the object again, as each does, may not stumble over a field that it leaves alone.
		if err := api.Update(t.Context(), stored, &client.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Errorf("%s %s cannot be written again: %v", object.GetKind(), object.GetName(), err)
		}
		if err := api.Delete(t.Context(), stored); err != nil {
			t.Error(err)
		}
	}
}

// TestEachFieldStandsInTheObjectsOfAVersion: a field that nobody wrote down here could go, and
// nobody would notice.
func TestEachFieldStandsInTheObjectsOfAVersion(t *testing.T) {
	written := map[string]bool{}
	for _, object := range objectsOfVersions(t) {
		noteFields(written, object.GetKind()+".spec", object.Object["spec"])
	}
	crds, err := charts.CRDs()
	if err != nil || len(crds) < 12 {
		t.Fatalf("%d CRDs, %v: the search is broken", len(crds), err)
	}
	for _, stored := range crds {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
			for _, field := range fieldsOf(crd.Spec.Names.Kind+".spec", &spec) {
				if !written[field] {
					t.Errorf("%s stands in no object of testdata/objects: add it to the file of the version that brings it", field)
				}
			}
		}
	}
}

// objectsOfVersions are those of all files, each in the namespace default where it is of one.
func objectsOfVersions(t *testing.T) (objects []*unstructured.Unstructured) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "objects", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v: the search is broken", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if object.GetKind() != "ScalewayAppleSiliconHost" {
				object.SetNamespace(metav1.NamespaceDefault)
			}
			objects = append(objects, integers(object))
		}
	}
	return objects
}

// integers has the object's whole numbers as the API server's answers have them.
func integers(object *unstructured.Unstructured) *unstructured.Unstructured {
	object.Object = whole(object.Object).(map[string]any)
	return object
}

func whole(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = whole(v[key])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case float64:
		return int64(v)
	}
	return value
}

// noteFields notes the paths of all fields of a value.
func noteFields(found map[string]bool, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			found[path+"."+key] = true
			noteFields(found, path+"."+key, v[key])
		}
	case []any:
		for _, item := range v {
			noteFields(found, path, item)
		}
	}
}

// fieldsOf are the paths of all fields of a schema.
func fieldsOf(path string, schema *apiextensionsv1.JSONSchemaProps) (fields []string) {
	if schema.Items != nil {
		fields = fieldsOf(path, schema.Items.Schema)
	}
	for name, property := range schema.Properties {
		fields = slices.Concat(fields, []string{path + "." + name}, fieldsOf(path+"."+name, &property))
	}
	return fields
}
