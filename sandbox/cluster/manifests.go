package cluster

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	webhooksFile = "webhooks.yaml"
	// namePrefix keeps core's webhook configurations apart from those of providers; its own deployment uses it too.
	namePrefix = "capi-"
)

// coreLabels are what core's deployment puts on its CRDs: which provider they belong to, and which API version serves
// which contract.
func coreLabels() map[string]string {
	return map[string]string{
		"cluster.x-k8s.io/provider": "cluster-api",
		"cluster.x-k8s.io/v1beta1":  "v1beta1",
		"cluster.x-k8s.io/v1beta2":  "v1beta2",
	}
}

// endpoint is where core's webhooks answer, and what signs their certificate.
type endpoint struct {
	port     int
	caBundle []byte
}

func (e endpoint) clientConfig(path string) map[string]any {
	return map[string]any{
		"url":      fmt.Sprintf("https://127.0.0.1:%d%s", e.port, path),
		"caBundle": base64.StdEncoding.EncodeToString(e.caBundle),
	}
}

// renderCRDs reads core's CRDs for webhooks at e.
func renderCRDs(manifests string, e endpoint) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(manifests, "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("no CRDs in %s", manifests), err)
	}
	var crds []*unstructured.Unstructured
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return nil, err
		}
		for _, crd := range objects {
			if err := convertAt(crd, e); err != nil {
				return nil, fmt.Errorf("rendering %s: %w", crd.GetName(), err)
			}
			crds = append(crds, crd)
		}
	}
	return crds, nil
}

// convertAt labels a CRD and has its versions converted at e.
func convertAt(crd *unstructured.Unstructured, e endpoint) error {
	labels := crd.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range coreLabels() {
		labels[key] = value
	}
	crd.SetLabels(labels)
	return unstructured.SetNestedMap(crd.Object, map[string]any{
		"strategy": "Webhook",
		"webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"},
			"clientConfig":             e.clientConfig("/convert"),
		},
	}, "spec", "conversion")
}

// renderWebhooks reads core's webhook configurations, with each webhook called at e.
func renderWebhooks(manifests string, e endpoint) ([]*unstructured.Unstructured, error) {
	configurations, err := readObjects(filepath.Join(manifests, webhooksFile))
	if err != nil {
		return nil, err
	}
	for _, configuration := range configurations {
		if err := callAt(configuration, e); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", configuration.GetName(), err)
		}
	}
	return configurations, nil
}

func callAt(configuration *unstructured.Unstructured, e endpoint) error {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return err
	}
	for i := range webhooks {
		webhook, ok := webhooks[i].(map[string]any)
		if !ok {
			return fmt.Errorf("webhook %d is no object", i)
		}
		path, found, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		if err != nil || !found {
			return errors.Join(fmt.Errorf("webhook %d names no path of a service", i), err)
		}
		webhook["clientConfig"] = e.clientConfig(path)
	}
	configuration.SetName(namePrefix + configuration.GetName())
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}

// readObjects reads every document of a YAML file.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading core's manifests: %w", err)
	}
	var objects []*unstructured.Unstructured
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("splitting %s: %w", filepath.Base(file), err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("parsing %s: %w", filepath.Base(file), err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
