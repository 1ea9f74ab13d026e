package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// helm --wait must wait for the agent that really is in the image.
func TestRequirement004_TheVersionThatIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		values []string
		want   string
	}{
		"the release's own image": {nil, "v0.1.0"},
		"another image":           {[]string{"manager.image.tag=mine"}, ""},
		"another by its digest":   {[]string{"manager.image.digest=sha256:" + strings.Repeat("0", 64)}, ""},
		"another, with a version": {[]string{"manager.image.tag=mine", "manager.agentVersion=v9.1.0"}, "v9.1.0"},
		"no manager here":         {[]string{"manager.replicas=0"}, ""},
	} {
		profile := named(objects(t, set(append([]string{"fleets.builders.zone=fr-par-1"}, c.values...)...)...), "MacNodeProfile", "macfleet-builders")
		if profile == nil {
			t.Fatalf("%s: no profile", name)
		}
		got, _, err := unstructured.NestedString(profile.Object, "spec", "agentVersion")
		if err != nil || got != c.want {
			t.Errorf("%s: agentVersion is %q (%v), want %q", name, got, err, c.want)
		}
	}
}

// A commit or a date may consist of digits, and is a name all the same.
func TestAVersionOfDigitsIsAString(t *testing.T) {
	profile := named(objects(t, append(set("fleets.builders.zone=fr-par-1"), "--set-string", "manager.agentVersion=20261103")...), "MacNodeProfile", "macfleet-builders")
	if profile == nil {
		t.Fatal("no profile")
	}
	if got, _, err := unstructured.NestedString(profile.Object, "spec", "agentVersion"); err != nil || got != "20261103" {
		t.Errorf("agentVersion is %q, %v", got, err)
	}
}

// So may the names of a fleet and of a Cluster.
func TestNamesOfDigitsAreStrings(t *testing.T) {
	all := objects(t, append(set("fleets.builders.zone=fr-par-1", "fleets.builders.healthCheck.enabled=true"),
		"--set-string", "fleets.builders.name=2026", "--set-string", "cluster.name=2027")...)
	for kind, name := range map[string]string{
		"MacNodeProfile": "2026", "MachineDeployment": "2026", "MachineHealthCheck": "2026", "ScalewayAppleSiliconRemediationTemplate": "2026",
		"Cluster": "2027", "ScalewayAppleSiliconCluster": "2027", "ExternalControlPlane": "2027",
	} {
		object := named(all, kind, name)
		if object == nil {
			t.Errorf("no %s has the name %q", kind, name)
			continue
		}
		if kind != "MachineDeployment" && kind != "MachineHealthCheck" {
			continue
		}
		if got, _, err := unstructured.NestedString(object.Object, "spec", "clusterName"); err != nil || got != "2027" {
			t.Errorf("clusterName of %s is %q, %v", kind, got, err)
		}
	}
}

// The book quotes what a person sees.
func TestAnOldKubernetesIsRefused(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{"1.32.9": "chart requires kubeVersion: >=1.33.0-0", "1.33.0": "", "1.36.4-eks-1": ""} {
		_, refusal, err := render(t.Context(), "--kube-version", version)
		if err != nil || (want == "") != (refusal == "") || !strings.Contains(refusal, want) {
			t.Errorf("%s: %q (%v), want %q", version, refusal, err, want)
		}
		said, _, _ := strings.Cut(strings.TrimPrefix(refusal, "Error: "), "\n")
		if want != "" && !strings.Contains(string(page), "\nError: INSTALLATION FAILED: "+said+"\n") {
			t.Errorf("docs/install.md does not quote %q", said)
		}
	}
}
