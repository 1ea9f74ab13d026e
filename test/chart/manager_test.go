package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// pods is the template of the manager's Pods, and what selects them.
func pods(t *testing.T, found []*unstructured.Unstructured) (spec map[string]any, selector map[string]string) {
	t.Helper()
	deployment := named(found, "Deployment", "macfleet-manager")
	if deployment == nil {
		t.Fatal("no Deployment of the manager")
	}
	spec, _, err := unstructured.NestedMap(deployment.Object, "spec", "template", "spec")
	if err != nil {
		t.Fatal(err)
	}
	selector, _, err = unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	if err != nil || len(selector) == 0 {
		t.Fatal("nothing selects the manager's Pods", err)
	}
	return spec, selector
}

// An eviction, a node or a zone takes one manager at most.
func TestManagersAreKeptApart(t *testing.T) {
	found := objects(t)
	spec, selector := pods(t, found)
	budget := named(found, "PodDisruptionBudget", "macfleet-manager")
	if budget == nil {
		t.Fatal("no PodDisruptionBudget")
	}
	if got, _, _ := unstructured.NestedStringMap(budget.Object, "spec", "selector", "matchLabels"); cmp.Diff(selector, got) != "" {
		t.Errorf("the budget is of %v", got)
	}
	if got := number(t, budget, "spec", "maxUnavailable"); got != 1 {
		t.Errorf("%d may be unavailable", got)
	}
	spread, _ := spec["topologySpreadConstraints"].([]any)
	keys := map[string]bool{}
	for _, one := range spread {
		constraint := one.(map[string]any)
		keys[constraint["topologyKey"].(string)] = true
		if got, _, _ := unstructured.NestedStringMap(constraint, "labelSelector", "matchLabels"); cmp.Diff(selector, got) != "" {
			t.Errorf("%s is spread by %v", constraint["topologyKey"], got)
		}
		// A single node must be able to hold all of them.
		if constraint["whenUnsatisfiable"] != "ScheduleAnyway" {
			t.Errorf("%s: %v", constraint["topologyKey"], constraint["whenUnsatisfiable"])
		}
	}
	if !keys["kubernetes.io/hostname"] || !keys["topology.kubernetes.io/zone"] {
		t.Errorf("spread over %v", keys)
	}
	if diff := cmp.Diff(map[string]any{"kubernetes.io/os": "linux"}, spec["nodeSelector"]); diff != "" {
		t.Errorf("a manager could be sent to a Mac: %s", diff)
	}
	off := objects(t, set("manager.spread=false", "manager.podDisruptionBudget.enabled=false")...)
	if spec, _ := pods(t, off); spec["topologySpreadConstraints"] != nil || named(off, "PodDisruptionBudget", "macfleet-manager") != nil {
		t.Error("it cannot be switched off")
	}
}

func TestManagersArePlacedAsWished(t *testing.T) {
	spec, _ := pods(t, objects(t, set("manager.imagePullSecrets[0].name=registry", "manager.nodeSelector.pool=control",
		"manager.tolerations[0].key=control", "manager.tolerations[0].operator=Exists", "manager.priorityClassName=high",
		"manager.affinity.nodeAffinity.a=b")...))
	for field, want := range map[string]any{
		"imagePullSecrets": []any{map[string]any{"name": "registry"}}, "nodeSelector": map[string]any{"kubernetes.io/os": "linux", "pool": "control"},
		"tolerations": []any{map[string]any{"key": "control", "operator": "Exists"}}, "priorityClassName": "high",
		"affinity": map[string]any{"nodeAffinity": map[string]any{"a": "b"}},
	} {
		if diff := cmp.Diff(want, spec[field]); diff != "" {
			t.Errorf("%s: %s", field, diff)
		}
	}
}

// Nobody reaches a manager but at the ports that it has to offer.
func TestNetworkPolicy(t *testing.T) {
	found := objects(t)
	_, selector := pods(t, found)
	policy := named(found, "NetworkPolicy", "macfleet-manager")
	if policy == nil {
		t.Fatal("no NetworkPolicy")
	}
	if got, _, _ := unstructured.NestedStringMap(policy.Object, "spec", "podSelector", "matchLabels"); cmp.Diff(selector, got) != "" {
		t.Errorf("it is of %v", got)
	}
	port := func(name string) any { return []any{map[string]any{"port": name, "protocol": "TCP"}} }
	want := map[string]any{
		"podSelector": map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": "macfleet", "app.kubernetes.io/instance": "macfleet"}},
		"policyTypes": []any{"Ingress"},
		"ingress":     []any{map[string]any{"ports": port("health")}, map[string]any{"ports": port("metrics")}},
	}
	if diff := cmp.Diff(want, policy.Object["spec"]); diff != "" {
		t.Error(diff)
	}
	narrow := named(objects(t, set("manager.networkPolicy.restrictEgress=true", "manager.networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus",
		"manager.networkPolicy.egress[0].to[0].ipBlock.cidr=10.0.0.0/8")...), "NetworkPolicy", "macfleet-manager")
	ingress, _, _ := unstructured.NestedSlice(narrow.Object, "spec", "ingress")
	if len(ingress) != 2 || ingress[1].(map[string]any)["from"] == nil || ingress[0].(map[string]any)["from"] != nil {
		t.Errorf("ingress = %v: only metrics are for some", ingress)
	}
	egress, _, _ := unstructured.NestedSlice(narrow.Object, "spec", "egress")
	types, _, _ := unstructured.NestedStringSlice(narrow.Object, "spec", "policyTypes")
	if len(egress) != 2 || len(types) != 2 {
		t.Errorf("egress = %v of %v: DNS, and what was named", egress, types)
	}
	if named(objects(t, set("manager.networkPolicy.enabled=false")...), "NetworkPolicy", "macfleet-manager") != nil {
		t.Error("it cannot be switched off")
	}
}

func TestMetricsCertificate(t *testing.T) {
	spec, _ := pods(t, objects(t, set("manager.metricsCertSecret=metrics-tls")...))
	volumes, _, _ := unstructured.NestedSlice(spec, "volumes")
	if len(volumes) != 2 {
		t.Errorf("volumes = %v", volumes)
	}
	flags := managerFlags(t, set("manager.metricsCertSecret=metrics-tls")...)
	if got, _ := flagValue(flags, "metrics-cert-dir"); got != "/etc/macfleet/metrics" {
		t.Errorf("--metrics-cert-dir = %q", got)
	}
	refused(t, "leave it out, or manager.metricsCertSecret", "manager.metricsCertSecret=metrics-tls", "manager.insecureMetrics=true")
}

func TestProfilesAreAskedFor(t *testing.T) {
	for setting, want := range map[string]bool{"manager.profiling=false": false, "manager.profiling=true": true} {
		flags := managerFlags(t, set(setting)...)
		if found := slices.Contains(flags, "--profiling"); found != want {
			t.Errorf("%s: the flags are %v", setting, flags)
		}
	}
	refused(t, "leave it out, or manager.profiling", "manager.profiling=true", "manager.insecureMetrics=true")
}

func TestSpansAreAskedFor(t *testing.T) {
	const endpoint = "http://collector.monitoring:4317"
	for setting, want := range map[string]string{"": "", endpoint: endpoint} {
		if got, _ := flagValue(managerFlags(t, set("manager.tracingEndpoint="+setting)...), "tracing-endpoint"); got != want {
			t.Errorf("--tracing-endpoint = %q, want %q", got, want)
		}
	}
	refused(t, "tracingEndpoint", "manager.tracingEndpoint=collector:4317")
}

// Each right is named: a star is a right to what nobody has thought of yet, and a
// Secret that can be listed is one that is read without its name.
func TestRightsAreEnumerated(t *testing.T) {
	roles := 0
	for _, object := range objects(t, set("fleets.builders.zone=fr-par-1", "manager.metricsService=true")...) {
		if kind := object.GetKind(); kind != "Role" && kind != "ClusterRole" {
			continue
		}
		roles++
		rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
		if len(rules) == 0 {
			t.Errorf("%s has no rules", object.GetName())
		}
		for _, one := range rules {
			rule := one.(map[string]any)
			words := map[string]bool{}
			for _, field := range []string{"apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"} {
				values, _, _ := unstructured.NestedStringSlice(rule, field)
				for _, value := range values {
					words[value] = true
				}
			}
			if words["*"] {
				t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), rule)
			}
			if words["secrets"] && (words["list"] || words["watch"]) {
				t.Errorf("%s %s lists Secrets: %v", object.GetKind(), object.GetName(), rule)
			}
		}
	}
	if roles < 7 {
		t.Errorf("only %d roles: the search is broken", roles)
	}
}

// A chart that was released names its image by digest, in whatever registry; a tag of your
// own is no longer that image. The Job before an upgrade runs the same one.
func TestImageIsNamedByTheDigestOfItsRelease(t *testing.T) {
	released, digest := "sha256:"+strings.Repeat("9", 64), "sha256:"+strings.Repeat("0123456789abcdef", 4)
	chart := t.TempDir()
	if err := os.CopyFS(chart, os.DirFS(chartDir)); err != nil {
		t.Fatal(err)
	}
	about, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const line = "macfleet.dev/image-digest: "
	if err := os.WriteFile(filepath.Join(chart, "Chart.yaml"), bytes.Replace(about, []byte(line+`""`), []byte(line+released), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		chart, want string
		values      []string
	}{
		{chart: chartDir, want: "ghcr.io/macfleet/manager:v0.1.0"},
		{chart: chartDir, want: "ghcr.io/macfleet/manager:v0.1.0@" + digest, values: []string{"manager.image.digest=" + digest}},
		{chart: chart, want: "ghcr.io/macfleet/manager:v0.1.0@" + released},
		{chart: chart, want: "mirror.example/manager:v0.1.0@" + released, values: []string{"manager.image.repository=mirror.example/manager"}},
		{chart: chart, want: "ghcr.io/macfleet/manager:mine", values: []string{"manager.image.tag=mine"}},
		{chart: chart, want: "ghcr.io/macfleet/manager:v0.1.0@" + digest, values: []string{"manager.image.digest=" + digest}},
		{chart: chart, want: "ghcr.io/macfleet/manager:mine", values: []string{"manager.image.digest=" + digest, "manager.image.tag=mine"}},
	} {
		found := objectsIn(t, c.chart, "macfleet", set(c.values...)...)
		for kind, name := range map[string]string{"Deployment": "macfleet-manager", "Job": "macfleet-crds"} {
			containers, _, err := unstructured.NestedSlice(named(found, kind, name).Object, "spec", "template", "spec", "containers")
			if err != nil || len(containers) != 1 {
				t.Fatalf("%s: %d containers, %v", kind, len(containers), err)
			}
			if got := containers[0].(map[string]any)["image"]; got != c.want {
				t.Errorf("%s %v: image %v, want %s", kind, c.values, got, c.want)
			}
		}
	}
}

// A manager asks the vendor in one zone after the other before it serves its health: one that
// is silent for eight seconds in each of 30 zones is no reason to begin anew.
func TestASilentVendorRestartsNoManager(t *testing.T) {
	spec, _ := pods(t, objects(t))
	container := spec["containers"].([]any)[0].(map[string]any)
	probe, _ := container["startupProbe"].(map[string]any)
	const periodSeconds, wanted = 10, 30 * 8
	if most, _ := probe["failureThreshold"].(int64); most*periodSeconds < wanted {
		t.Errorf("killed after %d s: %v", most*periodSeconds, probe)
	}
}

func TestAnnotationsAndEnvironmentOfTheManager(t *testing.T) {
	deployment := named(objects(t, append(set("manager.annotations.owner=ci", "manager.extraEnv[0].name=OTEL_TRACES_SAMPLER", "manager.extraEnv[0].value=always_on"),
		"--set-string", "manager.podAnnotations.scrape=true")...), "Deployment", "macfleet-manager")
	if deployment == nil {
		t.Fatal("no Deployment")
	}
	if diff := cmp.Diff(map[string]string{"owner": "ci"}, deployment.GetAnnotations()); diff != "" {
		t.Errorf("annotations: %s", diff)
	}
	got, _, err := unstructured.NestedStringMap(deployment.Object, "spec", "template", "metadata", "annotations")
	if diff := cmp.Diff(map[string]string{"scrape": "true"}, got); diff != "" || err != nil {
		t.Errorf("annotations of its Pods (%v): %s", err, diff)
	}
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("%d containers, %v", len(containers), err)
	}
	want := []any{map[string]any{"name": "OTEL_TRACES_SAMPLER", "value": "always_on"}}
	if diff := cmp.Diff(want, containers[0].(map[string]any)["env"]); diff != "" {
		t.Errorf("environment: %s", diff)
	}
}
