package api

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestTheChartsObjectsAreAccepted creates our kinds as the chart renders a fleet
// that says everything; a field that does not exist is an error.
func TestTheChartsObjectsAreAccepted(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "chart", "testdata", "full.golden.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	strict := client.WithFieldValidation(api, metav1.FieldValidationStrict)
	decoder, accepted := yaml.NewYAMLOrJSONDecoder(file, 4096), 0
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		group := object.GroupVersionKind().Group
		if !strings.HasPrefix(group, "infrastructure.") && !strings.HasPrefix(group, "controlplane.") {
			continue
		}
		object.SetNamespace("default")
		if pool := []string{"spec", "template", "spec", "adoptPoolPrefix"}; object.GetKind() == "ScalewayAppleSiliconMachineTemplate" {
			must(t, unstructured.SetNestedField(object.Object, poolPrefix, pool...)) // the golden file's release has another
		}
		if err := strict.Create(t.Context(), object); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		accepted++
	}
	if accepted < 6 {
		t.Errorf("only %d objects of ours in the golden file", accepted)
	}
}
