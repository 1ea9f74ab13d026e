// Package charts holds the chart's CRDs for the manager, which compares them with
// the cluster's when it starts, and applies them when it is told to.
package charts

import (
	"embed"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed macfleet/crds/*.yaml
var crds embed.FS

// CRDs are the CustomResourceDefinitions of this build, by name in order.
func CRDs() ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(crds, "macfleet/crds/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("finding the CRDs of this build: %w", err)
	}
	found := make([]*unstructured.Unstructured, 0, len(files))
	for _, file := range files {
		content, err := crds.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the CRDs of this build: %w", err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &crd.Object); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", file, err)
		}
		found = append(found, crd)
	}
	return found, nil
}
