package chart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func externalSecret(more ...string) []string {
	return set(append([]string{"fleets.builders.zone=fr-par-1", "capi.remoteKubeconfig=externalSecret", "capi.externalSecret.storeRef.name=vault"}, more...)...)
}

// Off by default: who has no secret store gets nothing of one.
func TestRequirement004_ChartKubeconfigIsMintedByDefault(t *testing.T) {
	found := objects(t, set("fleets.builders.zone=fr-par-1")...)
	for _, object := range found {
		if object.GetKind() == "ExternalSecret" {
			t.Errorf("ExternalSecret %s is rendered by default", object.GetName())
		}
	}
	if named(found, "Secret", "capi-remote-token") != nil {
		t.Error("a token that never ends is made by default")
	}
	if got := kubeconfigSource(t, found); got != "" {
		t.Errorf("spec.kubeconfig = %q: the manager would not mint", got)
	}
	if named(found, "ServiceAccount", "capi-remote") == nil || named(found, "ClusterRoleBinding", "macfleet-capi-remote") == nil {
		t.Error("capi-remote is missing: there is nothing to mint a token for")
	}
}

func TestRequirement004_ChartExternalSecretSurvivesUpgradesAndRollbacks(t *testing.T) {
	found := objects(t, externalSecret("capi.externalSecret.item=item", "capi.externalSecret.field=field")...)
	external := named(found, "ExternalSecret", "macfleet-kubeconfig")
	if external == nil {
		t.Fatal("no ExternalSecret")
	}
	for key, want := range map[string]string{
		"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-weight": "-10", "helm.sh/hook-delete-policy": "before-hook-creation",
	} {
		if got := external.GetAnnotations()[key]; got != want {
			t.Errorf("annotation %s = %q, want %q", key, got, want)
		}
	}
	want := map[string]any{
		"refreshInterval": "1h",
		"secretStoreRef":  map[string]any{"kind": "ClusterSecretStore", "name": "vault"},
		"target": map[string]any{
			"name": "macfleet-kubeconfig", "creationPolicy": "Orphan", "deletionPolicy": "Retain",
			"template": map[string]any{
				"type":     "cluster.x-k8s.io/secret",
				"metadata": map[string]any{"labels": map[string]any{"cluster.x-k8s.io/cluster-name": "macfleet"}},
			},
		},
		"data": []any{map[string]any{"secretKey": "value", "remoteRef": map[string]any{"key": "item", "property": "field"}}},
	}
	if diff := cmp.Diff(want, external.Object["spec"]); diff != "" {
		t.Error(diff)
	}
	if got := kubeconfigSource(t, found); got != "Provided" {
		t.Errorf("spec.kubeconfig = %q: the manager would mint one before the store is read", got)
	}
}

// The kubeconfig in the store holds a token that must not end: nobody renews it.
func TestRequirement004_ChartExternalSecretHasItsServiceAccountAndToken(t *testing.T) {
	found := objects(t, externalSecret()...)
	token := named(found, "Secret", "capi-remote-token")
	if token == nil {
		t.Fatal("no token Secret")
	}
	kind, _, _ := unstructured.NestedString(token.Object, "type")
	if kind != "kubernetes.io/service-account-token" || token.GetAnnotations()["kubernetes.io/service-account.name"] != "capi-remote" {
		t.Errorf("type %q, annotations %v", kind, token.GetAnnotations())
	}
	if named(found, "ServiceAccount", "capi-remote") == nil {
		t.Error("no ServiceAccount capi-remote")
	}
}

// What core asks for, and no more; drain needs the last four.
func TestRequirement004_ChartCapiRemoteRights(t *testing.T) {
	role := named(objects(t, set("fleets.builders.zone=fr-par-1")...), "ClusterRole", "macfleet-capi-remote")
	if role == nil {
		t.Fatal("no ClusterRole")
	}
	rules, _, err := unstructured.NestedSlice(role.Object, "rules")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, one := range rules {
		rule := one.(map[string]any)
		names, _, _ := unstructured.NestedStringSlice(rule, "resources")
		urls, _, _ := unstructured.NestedStringSlice(rule, "nonResourceURLs")
		verbs, _, _ := unstructured.NestedStringSlice(rule, "verbs")
		for _, name := range append(names, urls...) {
			got[name] = verbs
		}
	}
	want := map[string][]string{
		"nodes": {"get", "list", "watch", "patch", "delete"}, "pods": {"get", "list"}, "pods/eviction": {"create"}, "/": {"get"},
		"namespaces": {"get", "list", "watch"}, "daemonsets": {"get"}, "volumeattachments": {"list"}, "persistentvolumes": {"list"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoKubeconfigOfOurs(t *testing.T) {
	found := objects(t, set("fleets.builders.zone=fr-par-1", "capi.remoteKubeconfig=none")...)
	for _, object := range found {
		switch object.GetKind() {
		case "ExternalSecret":
			t.Error("an ExternalSecret is rendered")
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding":
			if name := object.GetName(); name == "capi-remote" || name == "macfleet-capi-remote" {
				t.Errorf("%s %s is rendered, for nobody", object.GetKind(), name)
			}
		}
	}
	if got := kubeconfigSource(t, found); got != "Provided" {
		t.Errorf("spec.kubeconfig = %q", got)
	}
}

func kubeconfigSource(t *testing.T, found []*unstructured.Unstructured) string {
	t.Helper()
	plane := named(found, "ExternalControlPlane", "macfleet")
	if plane == nil {
		t.Fatal("no ExternalControlPlane")
	}
	source, _, err := unstructured.NestedString(plane.Object, "spec", "kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	return source
}
