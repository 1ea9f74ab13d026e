package chart

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// rulesOn are a role's verbs on a resource, and the names that they are limited to.
func rulesOn(t *testing.T, role, resource string) (verbs, names []string) {
	t.Helper()
	object := named(objects(t), "ClusterRole", role)
	if object == nil {
		t.Fatalf("no ClusterRole %s", role)
	}
	rules, _, err := unstructured.NestedSlice(object.Object, "rules")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range rules {
		rule := one.(map[string]any)
		if resources, _, _ := unstructured.NestedStringSlice(rule, "resources"); slices.Contains(resources, resource) {
			verbs, _, _ = unstructured.NestedStringSlice(rule, "verbs")
			names, _, _ = unstructured.NestedStringSlice(rule, "resourceNames")
		}
	}
	return verbs, names
}

// Who may reboot and wipe Macs sees the guests that end by it, and changes neither them nor
// their Nodes; of Leases people see the manager's alone, and of Secrets none.
func TestPeopleSeeWhatTheirVerbsAskAbout(t *testing.T) {
	look := []string{"get", "list", "watch"}
	for role, want := range map[string]map[string][]string{
		"macfleet-host-operator": {"pods": look, "nodes": look, "leases": look, "secrets": nil, "pods/eviction": nil},
		"macfleet-fleet-author":  {"pods": nil, "nodes": nil, "leases": look, "secrets": nil},
		"macfleet-host-viewer":   {"pods": nil, "nodes": nil, "leases": nil, "secrets": nil},
	} {
		for resource, verbs := range want {
			got, names := rulesOn(t, role, resource)
			if !slices.Equal(got, verbs) {
				t.Errorf("%s may %v %s, want %v", role, got, resource, verbs)
			}
			if resource == "leases" && len(got) > 0 && !slices.Equal(names, []string{"macfleet-manager"}) {
				t.Errorf("%s sees the Leases %v", role, names)
			}
		}
	}
}

// Of Cluster API's objects the manager changes none but what a health check gave up: it deletes
// Machines, and says so in their status.
func TestOfClusterAPIsObjectsTheManagerDeletesMachinesAlone(t *testing.T) {
	for resource, want := range map[string][]string{
		"clusters": {"get", "list", "watch"}, "machinedeployments": {"get", "list", "watch"}, "machinesets": {"get"},
		"machinehealthchecks": {"list"}, "machines": {"delete", "get", "list", "watch"}, "machines/status": {"patch"},
	} {
		if got, _ := rulesOn(t, "macfleet-manager", resource); !slices.Equal(got, want) {
			t.Errorf("the manager may %v %s, want %v", got, resource, want)
		}
	}
}
