package chart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The Service leads to the manager's Pods and to the port that they name.
func TestMetricsService(t *testing.T) {
	const name = "macfleet-manager-metrics"
	if named(objects(t), "Service", name) != nil {
		t.Error("a Service is made although nobody asked for one")
	}
	found := objects(t, set("manager.metricsService=true")...)
	service, deployment := named(found, "Service", name), named(found, "Deployment", "macfleet-manager")
	if service == nil || deployment == nil {
		t.Fatal("no Service, or no Deployment")
	}
	selected, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector")
	pods, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	if diff := cmp.Diff(pods, selected); diff != "" || len(selected) == 0 {
		t.Errorf("it selects %v: %s", selected, diff)
	}
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	if len(ports) != 1 || ports[0].(map[string]any)["targetPort"] != "metrics" {
		t.Errorf("ports = %v", ports)
	}
}
