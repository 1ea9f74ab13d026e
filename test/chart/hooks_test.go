package chart

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// hookJobs are the Jobs of the chart's hooks, with the hook that each is of.
var hookJobs = map[string]string{"macfleet-crds": "pre-upgrade", "macfleet-uninstall": "pre-delete"}

// hookPod is the template of a hook's Pod.
func hookPod(t *testing.T, found []*unstructured.Unstructured, name string) (spec, container map[string]any, labels map[string]string) {
	t.Helper()
	job := named(found, "Job", name)
	if job == nil {
		t.Fatalf("no Job %s", name)
	}
	spec, _, _ = unstructured.NestedMap(job.Object, "spec", "template", "spec")
	labels, _, _ = unstructured.NestedStringMap(job.Object, "spec", "template", "metadata", "labels")
	containers, _, _ := unstructured.NestedSlice(spec, "containers")
	if len(containers) != 1 || len(labels) == 0 {
		t.Fatalf("%s: %d containers, labels %v", name, len(containers), labels)
	}
	return spec, containers[0].(map[string]any), labels
}

// What a namespace's quota and its nodes ask of a manager they ask of these Pods, too.
func TestHooksArePlacedAsTheManager(t *testing.T) {
	found := objects(t, set("manager.resources.limits.cpu=500m", "manager.resources.requests.memory=1Gi", "manager.affinity.nodeAffinity.a=b",
		"manager.imagePullSecrets[0].name=registry", "manager.nodeSelector.pool=control", "manager.tolerations[0].operator=Exists", "manager.priorityClassName=high")...)
	manager, _ := pods(t, found)
	for name := range hookJobs {
		spec, container, _ := hookPod(t, found, name)
		for _, field := range []string{"affinity", "imagePullSecrets", "nodeSelector", "tolerations", "priorityClassName"} {
			if diff := cmp.Diff(manager[field], spec[field]); diff != "" || manager[field] == nil {
				t.Errorf("%s: %s (-manager +Job):\n%s", name, field, diff)
			}
		}
		if diff := cmp.Diff(manager["containers"].([]any)[0].(map[string]any)["resources"], container["resources"]); diff != "" {
			t.Errorf("%s: resources (-manager +Job):\n%s", name, diff)
		}
	}
}

// A namespace that lets nobody out lets out these Pods. Their policies come with them: those
// of the release are the ones of before the upgrade.
func TestHooksReachTheAPIServer(t *testing.T) {
	dns := map[string]any{"ports": []any{map[string]any{"port": int64(53), "protocol": "UDP"}, map[string]any{"port": int64(53), "protocol": "TCP"}}}
	for values, want := range map[string][]any{
		"manager.networkPolicy.enabled=true": {map[string]any{}},
		"manager.networkPolicy.restrictEgress=true,manager.networkPolicy.egress[0].ports[0].port=6443": {
			dns, map[string]any{"ports": []any{map[string]any{"port": int64(6443)}}},
		},
		"manager.networkPolicy.enabled=false": nil,
	} {
		found := objects(t, set(values)...)
		for name, hook := range hookJobs {
			policy := named(found, "NetworkPolicy", name)
			if policy == nil || want == nil {
				if policy != nil || want != nil {
					t.Errorf("%s: %s has the policy %v", values, name, policy)
				}
				continue
			}
			if got := policy.GetAnnotations(); got["helm.sh/hook"] != hook || got["helm.sh/hook-weight"] >= "0" {
				t.Errorf("the policy of %s comes with %v", name, got)
			}
			_, _, labels := hookPod(t, found, name)
			if got, _, _ := unstructured.NestedStringMap(policy.Object, "spec", "podSelector", "matchLabels"); cmp.Diff(labels, got) != "" {
				t.Errorf("the policy of %s is of %v", name, got)
			}
			if _, manager := pods(t, found); labels["app.kubernetes.io/name"] == manager["app.kubernetes.io/name"] {
				t.Errorf("%s would be taken for a manager", name)
			}
			types, _, _ := unstructured.NestedStringSlice(policy.Object, "spec", "policyTypes")
			egress, _, _ := unstructured.NestedSlice(policy.Object, "spec", "egress")
			if diff := cmp.Diff(want, egress); diff != "" || !slices.Equal(types, []string{"Ingress", "Egress"}) {
				t.Errorf("%s: %s of %v:\n%s", values, name, types, diff)
			}
		}
	}
}

// A Job's own deadline takes its Pod away, with what the log says.
func TestTheCheckBeforeAnUninstallationEndsBeforeItsJob(t *testing.T) {
	found := objects(t, set("uninstall.waitSeconds=600")...)
	_, container, _ := hookPod(t, found, "macfleet-uninstall")
	if diff := cmp.Diff([]any{"uninstall", "check", "--timeout=570s"}, container["args"]); diff != "" {
		t.Error(diff)
	}
	if got := number(t, named(found, "Job", "macfleet-uninstall"), "spec", "activeDeadlineSeconds"); got != 600 {
		t.Errorf("the Job has %d s", got)
	}
}
