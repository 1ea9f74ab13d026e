package api

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestTheBooksExamplesAreAccepted applies each file as it is, Pods for Macs among them:
// no field is unknown, and no policy refuses what the book shows.
func TestTheBooksExamplesAreAccepted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "examples", "*.yaml"))
	must(t, err)
	strict := client.WithFieldValidation(api, metav1.FieldValidationStrict)
	objects := 0
	for _, name := range files {
		file, err := os.Open(name)
		must(t, err)
		t.Cleanup(func() { file.Close() })
		decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
		for ; ; objects++ {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if object.GetNamespace() == "" {
				object.SetNamespace("default")
			}
			if err := strict.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Errorf("%s: %s %s: %v", filepath.Base(name), object.GetKind(), object.GetName(), err)
			}
		}
	}
	if objects < 7 {
		t.Errorf("only %d objects in %q", objects, files)
	}
}
