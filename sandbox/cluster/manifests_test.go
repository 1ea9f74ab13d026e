package cluster

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const crdYAML = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
  labels: {theirs: kept}
spec:
  group: example.com
`

const webhooksYAML = `---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating-webhook-configuration}
webhooks:
- name: default.things.example.com
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate-things}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating-webhook-configuration}
webhooks:
- name: validation.things.example.com
  clientConfig: {service: {name: webhook-service, namespace: system, path: /validate-things}}
- name: validation.others.example.com
  clientConfig: {service: {name: webhook-service, namespace: system, path: /validate-others}}
`

func manifestsDir(t *testing.T, crd, webhooks string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crds", "things.yaml"), crd)
	write(t, filepath.Join(dir, webhooksFile), webhooks)
	return dir
}

func testEndpoint() endpoint { return endpoint{port: 9443, caBundle: []byte("authority")} }

func TestRenderCRDs(t *testing.T) {
	crds, err := renderCRDs(manifestsDir(t, crdYAML, webhooksYAML), testEndpoint())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": "things.example.com",
			"labels": map[string]any{
				"theirs":                    "kept",
				"cluster.x-k8s.io/provider": "cluster-api",
				"cluster.x-k8s.io/v1beta1":  "v1beta1",
				"cluster.x-k8s.io/v1beta2":  "v1beta2",
			},
		},
		"spec": map[string]any{
			"group": "example.com",
			"conversion": map[string]any{
				"strategy": "Webhook",
				"webhook": map[string]any{
					"conversionReviewVersions": []any{"v1"},
					"clientConfig":             map[string]any{"url": "https://127.0.0.1:9443/convert", "caBundle": "YXV0aG9yaXR5"},
				},
			},
		},
	}
	if len(crds) != 1 {
		t.Fatalf("%d CRDs, want 1", len(crds))
	}
	if diff := cmp.Diff(want, crds[0].Object); diff != "" {
		t.Error(diff)
	}
}

func TestRenderWebhooks(t *testing.T) {
	configurations, err := renderWebhooks(manifestsDir(t, crdYAML, webhooksYAML), testEndpoint())
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, configuration := range configurations {
		webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
		if err != nil {
			t.Fatal(err)
		}
		for _, webhook := range webhooks {
			config, _, _ := unstructured.NestedMap(webhook.(map[string]any), "clientConfig")
			if len(config) != 2 || config["caBundle"] != "YXV0aG9yaXR5" {
				t.Errorf("%s is called with %v, want a URL and the authority alone", configuration.GetName(), config)
			}
			urls = append(urls, configuration.GetName()+" "+config["url"].(string))
		}
	}
	want := []string{
		"capi-mutating-webhook-configuration https://127.0.0.1:9443/mutate-things",
		"capi-validating-webhook-configuration https://127.0.0.1:9443/validate-things",
		"capi-validating-webhook-configuration https://127.0.0.1:9443/validate-others",
	}
	if diff := cmp.Diff(want, urls); diff != "" {
		t.Error(diff)
	}
}

func TestRenderRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, dir := range map[string]string{
		"no CRDs":             t.TempDir(),
		"not YAML":            manifestsDir(t, "{", "{"),
		"webhook by URL":      manifestsDir(t, crdYAML, "kind: MutatingWebhookConfiguration\nwebhooks: [{clientConfig: {url: https://elsewhere}}]"),
		"webhooks not a list": manifestsDir(t, crdYAML, "kind: MutatingWebhookConfiguration\nwebhooks: {}"),
	} {
		t.Run(name, func(t *testing.T) {
			_, crdErr := renderCRDs(dir, testEndpoint())
			_, webhookErr := renderWebhooks(dir, testEndpoint())
			if crdErr == nil && webhookErr == nil {
				t.Error("rendered without an error")
			}
		})
	}
}

func TestEstablished(t *testing.T) {
	for want, status := range map[bool]map[string]any{
		true:  {"conditions": []any{map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"}}},
		false: {"conditions": []any{map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "False"}}},
	} {
		crd := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		if got := established(crd); got != want {
			t.Errorf("established is %v for %v", got, status)
		}
	}
	if established(&unstructured.Unstructured{Object: map[string]any{}}) {
		t.Error("a CRD without status is established")
	}
}
