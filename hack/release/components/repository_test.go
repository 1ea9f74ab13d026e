package components

import (
	"os"
	"path/filepath"
	"testing"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
)

// The folder of docs/install.md is a repository of providers.
func TestContract_ClusterctlReadsTheFilesAsARepository(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "infrastructure-macfleet", "v0.1.0")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "config", "clusterctl"))); err != nil {
		t.Fatal(err)
	}
	components := filepath.Join(dir, "infrastructure-components.yaml")
	if err := os.WriteFile(components, file(t), 0o600); err != nil {
		t.Fatal(err)
	}
	given := settings(t, map[string]string{
		"CLUSTER_NAME": "macfleet", "NAMESPACE": Namespace, "SCW_ZONE": "fr-par-1", "TART_VERSION": "2.30.0", "TART_SHA256": "00", "WORKER_MACHINE_COUNT": "3", "KUBERNETES_VERSION": "v1.36.4",
	})
	client, err := repository.New(t.Context(), config.NewProvider(Provider, components, clusterctlv1.InfrastructureProviderType), given)
	if err != nil {
		t.Fatal(err)
	}
	if client.DefaultVersion() != "v0.1.0" {
		t.Errorf("the newest version is %q", client.DefaultVersion())
	}
	metadata, err := client.Metadata("v0.1.0").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if series := metadata.ReleaseSeries; len(series) != 1 || series[0].Contract != "v1beta2" {
		t.Errorf("series %+v", series)
	}
	if _, err := client.Components().Get(t.Context(), repository.ComponentsOptions{Version: "v0.1.0"}); err != nil {
		t.Error(err)
	}
	for flavour, want := range map[string]int{"": 7, "fleet-mhc": 9, "topology": 2} {
		template, err := client.Templates("v0.1.0").Get(t.Context(), flavour, Namespace, false)
		if err != nil {
			t.Errorf("flavour %q: %v", flavour, err)
			continue
		}
		if got := len(template.Objs()); got != want {
			t.Errorf("flavour %q has %d objects, want %d", flavour, got, want)
		}
	}
	class, err := client.ClusterClasses("v0.1.0").Get(t.Context(), "macfleet", Namespace, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(class.Objs()); got != 5 || len(class.Variables()) != 0 {
		t.Errorf("the ClusterClass has %d objects and the variables %q, want 5, and none: a file of a class may have none", got, class.Variables())
	}
}
