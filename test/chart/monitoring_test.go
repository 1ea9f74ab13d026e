package chart

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Both kinds are the Prometheus Operator's, without which nothing of them may be made.
func TestMonitoringIsAskedFor(t *testing.T) {
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		if named(objects(t), kind, "macfleet") != nil {
			t.Errorf("a %s is made although nobody asked for one", kind)
		}
	}
	found := objects(t, set("manager.metricsService=true", "monitoring.serviceMonitor.enabled=true",
		"monitoring.prometheusRule.enabled=true", "monitoring.labels.release=prometheus")...)
	monitor, rule, service := named(found, "ServiceMonitor", "macfleet"), named(found, "PrometheusRule", "macfleet"), named(found, "Service", "macfleet-manager-metrics")
	if monitor == nil || rule == nil || service == nil {
		t.Fatal("no ServiceMonitor, no PrometheusRule, or no Service")
	}
	selected, _, _ := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
	for name, value := range selected {
		if service.GetLabels()[name] != value {
			t.Errorf("the ServiceMonitor selects %s=%s, and the Service bears %v", name, value, service.GetLabels())
		}
	}
	if len(selected) == 0 || monitor.GetLabels()["release"] != "prometheus" || rule.GetLabels()["release"] != "prometheus" {
		t.Errorf("selector %v, labels %v and %v", selected, monitor.GetLabels(), rule.GetLabels())
	}
	groups, _, _ := unstructured.NestedSlice(rule.Object, "spec", "groups")
	rules, _, _ := unstructured.NestedSlice(groups[0].(map[string]any), "rules")
	for _, r := range rules {
		url, _, _ := unstructured.NestedString(r.(map[string]any), "annotations", "runbook_url")
		if name := r.(map[string]any)["alert"].(string); !strings.HasSuffix(url, "/docs/operate/alerts.md#"+strings.ToLower(name)) {
			t.Errorf("%s: runbook %s", name, url)
		}
	}
	if len(rules) < 10 {
		t.Errorf("%d alerts", len(rules))
	}
}

// Grafana's sidecar finds the dashboards by a label, and each is a file as it stands.
func TestDashboardsAreAskedFor(t *testing.T) {
	if named(objects(t), "ConfigMap", "macfleet-dashboards") != nil {
		t.Error("dashboards are made although nobody asked for them")
	}
	config := named(objects(t, set("monitoring.dashboards.enabled=true", "monitoring.dashboards.annotations.grafana_folder=macfleet")...), "ConfigMap", "macfleet-dashboards")
	if config == nil {
		t.Fatal("no dashboards")
	}
	if config.GetLabels()["grafana_dashboard"] != "1" || config.GetAnnotations()["grafana_folder"] != "macfleet" {
		t.Errorf("labels %v, annotations %v", config.GetLabels(), config.GetAnnotations())
	}
	files, _, _ := unstructured.NestedStringMap(config.Object, "data")
	if len(files) != 2 {
		t.Errorf("%d dashboards", len(files))
	}
	for name, text := range files {
		var dashboard struct{ UID string }
		if err := json.Unmarshal([]byte(text), &dashboard); err != nil || dashboard.UID == "" {
			t.Errorf("%s: uid %q, %v", name, dashboard.UID, err)
		}
	}
}

// Values are merged: what is said beside a default would not take it away.
func TestAServiceMonitorVerifiesWhereItIsSaidHow(t *testing.T) {
	for tls, want := range map[string]map[string]any{"": {"insecureSkipVerify": true}, "serverName=a.example": {"serverName": "a.example"}} {
		values := []string{"manager.metricsService=true", "monitoring.serviceMonitor.enabled=true"}
		if tls != "" {
			values = append(values, "manager.metricsCertSecret=b", "monitoring.serviceMonitor.tlsConfig."+tls)
		}
		monitor := named(objects(t, set(values...)...), "ServiceMonitor", "macfleet")
		if monitor == nil {
			t.Fatal("no ServiceMonitor")
		}
		endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
		if got := endpoints[0].(map[string]any)["tlsConfig"]; !reflect.DeepEqual(got, any(want)) {
			t.Errorf("%q: tlsConfig %v, want %v", tls, got, want)
		}
	}
}
