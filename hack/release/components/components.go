// Package components makes of the chart what clusterctl installs: one file with
// everything that a provider is, and nothing that belongs to a Cluster.
package components

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	// Provider is macfleet's name among clusterctl's infrastructure providers.
	Provider = "macfleet"
	// Namespace is where clusterctl installs it.
	Namespace = "macfleet-system"

	providerLabel = "cluster.x-k8s.io/provider"
	managedBy     = "app.kubernetes.io/managed-by"
)

// extra is what the chart leaves to people or to RBAC: the vendor's credentials, from
// clusterctl's variables, and the bounds of a right that clusterctl widens.
//
//go:embed extra.yaml
var extra []byte

// Render renders a packaged chart, with its CRDs.
func Render(ctx context.Context, helm, chart, crds string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, helm, "template", Provider, chart, "--namespace", Namespace, "--no-hooks")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("rendering the chart: %w: %s", err, stderr.String())
	}
	definitions, err := readCRDs(crds)
	if err != nil {
		return nil, err
	}
	objects, err := Decode(stdout.Bytes())
	if err != nil {
		return nil, fmt.Errorf("reading the rendered chart: %w", err)
	}
	text, err := encode(slices.Concat([]*unstructured.Unstructured{namespace()}, definitions, objects))
	// As it is written: values of variables need its quotes.
	return slices.Concat(text, []byte("---\n"), extra), err
}

func namespace() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace},
	}}
}

func readCRDs(dir string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("no CRDs in %s", dir), err)
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a CRD: %w", err)
		}
		objects, err := Decode(content)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

func encode(objects []*unstructured.Unstructured) ([]byte, error) {
	var out bytes.Buffer
	for _, object := range objects {
		clusterWide(object)
		label(object)
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("writing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

// label says whose the object is: clusterctl's, and no longer Helm's.
func label(object *unstructured.Unstructured) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	delete(labels, managedBy)
	unstructured.RemoveNestedField(object.Object, "spec", "template", "metadata", "labels", managedBy)
	labels[providerLabel] = "infrastructure-" + Provider
	object.SetLabels(labels)
}

// clusterWide turns what is in a namespace other than the provider's into what is in
// none. clusterctl puts everything that has a namespace into the provider's, where
// the manager's rights in kube-system would be of no use.
func clusterWide(object *unstructured.Unstructured) {
	other := object.GetNamespace()
	if other == "" || other == Namespace {
		return
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "namespace")
	object.SetName(object.GetName() + "-" + other)
	object.SetKind("Cluster" + object.GetKind())
	if reference, found, _ := unstructured.NestedStringMap(object.Object, "roleRef"); found {
		reference["kind"], reference["name"] = "ClusterRole", object.GetName()
		_ = unstructured.SetNestedStringMap(object.Object, reference, "roleRef")
	}
}

// Decode reads a stream of YAML documents.
func Decode(text []byte) ([]*unstructured.Unstructured, error) {
	decoder := kubeyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
