package components

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	yamlprocessor "sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"

	"github.com/macfleet/macfleet/test/helm"
)

// templateName is what the chart calls a MachineTemplate.
var templateName = regexp.MustCompile("macfleet-macs-[0-9a-f]{8}")

func decodeStrictly(text []byte, into any) error { return yaml.UnmarshalStrict(text, into) }

// A fleet by clusterctl is a fleet by the chart.
func TestTemplatesAreTheChartsFleets(t *testing.T) {
	sum := strings.Repeat("0123456789abcdef", 4)
	variables := map[string]string{
		"CLUSTER_NAME": "macfleet", "NAMESPACE": Namespace, "SCW_ZONE": "fr-par-3", "WORKER_MACHINE_COUNT": "5",
		"TART_VERSION": "2.30.0", "TART_SHA256": sum,
	}
	values := []string{
		"fleets.macs.zone=fr-par-3", "fleets.macs.replicas=5", "fleets.macs.type=M2-L", "fleets.macs.os=tahoe", "manager.image.tag=mine",
		"fleets.macs.profile.tart.version=2.30.0", "fleets.macs.profile.tart.sha256=" + sum,
		"fleets.macs.profile.tart.source=https://github.com/cirruslabs/tart/releases/download/2.30.0/tart.tar.gz",
	}
	for name, more := range map[string][]string{
		"cluster-template.yaml":           nil,
		"cluster-template-fleet-mhc.yaml": {"fleets.macs.healthCheck.enabled=true"},
	} {
		want := fleetObjects(t, chartsFleet(t, append(values, more...)))
		got := fleetObjects(t, processed(t, name, variables))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-chart +template):\n%s", name, diff)
		}
		if len(want) < 7 {
			t.Errorf("%s: only %d objects compared", name, len(want))
		}
	}
}

// Core wants either of each Machine: the name of a Secret, which these templates have and leave
// empty, or a template of configs, as the class has.
func TestContract_MachinesHaveABootstrap(t *testing.T) {
	for _, name := range []string{"cluster-template.yaml", "cluster-template-fleet-mhc.yaml"} {
		objects, err := Decode(processed(t, name, map[string]string{
			"CLUSTER_NAME": "macs", "NAMESPACE": Namespace, "SCW_ZONE": "fr-par-3", "TART_VERSION": "2.30.0", "TART_SHA256": "00",
		}))
		if err != nil {
			t.Fatal(err)
		}
		named, secrets := "", map[string]bool{}
		for _, object := range objects {
			switch object.GetKind() {
			case "MachineDeployment":
				named, _, _ = unstructured.NestedString(object.Object, "spec", "template", "spec", "bootstrap", "dataSecretName")
			case "Secret":
				secrets[object.GetName()] = object.Object["data"] == nil && object.Object["stringData"] == nil
			}
		}
		if named == "" || !secrets[named] {
			t.Errorf("%s: Machines name the Secret %q; empty ones are %v", name, named, secrets)
		}
	}
	class := &clusterv1.ClusterClass{}
	text, _, _ := strings.Cut(string(template(t, "clusterclass-macfleet.yaml")), "\n---\n")
	if err := decodeStrictly([]byte(text), class); err != nil {
		t.Fatal(err)
	}
	workers := class.Spec.Workers.MachineDeployments
	if len(workers) != 1 || workers[0].Bootstrap.TemplateRef.Kind != "MacBootstrapConfigTemplate" {
		t.Errorf("the class' workers are %+v", workers)
	}
}

func TestTemplatesSayWhatTheyNeed(t *testing.T) {
	for _, name := range []string{"cluster-template.yaml", "cluster-template-fleet-mhc.yaml", "cluster-template-topology.yaml"} {
		defaults, err := yamlprocessor.NewSimpleProcessor().GetVariableMap(template(t, name))
		if err != nil {
			t.Fatal(err)
		}
		for variable, want := range map[string]string{"MAC_TYPE": "M2-L", "MAC_OS": "tahoe", "WORKER_MACHINE_COUNT": "1"} {
			if got := defaults[variable]; got == nil || *got != want {
				t.Errorf("%s: %s has no default %q", name, variable, want)
			}
		}
		asked := []string{"CLUSTER_NAME", "SCW_ZONE", "TART_VERSION", "TART_SHA256"}
		if name == "cluster-template-topology.yaml" {
			asked = append(asked, "KUBERNETES_VERSION") // core lets nobody lower a wrong one
		} else if defaults["KUBERNETES_VERSION"] == nil {
			t.Errorf("%s: KUBERNETES_VERSION has no default", name)
		}
		for _, required := range asked {
			if value, known := defaults[required]; !known || value != nil {
				t.Errorf("%s: %s is not asked for", name, required)
			}
		}
	}
}

func template(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "config", "clusterctl", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func processed(t *testing.T, name string, variables map[string]string) []byte {
	t.Helper()
	out, err := yamlprocessor.NewSimpleProcessor().Process(template(t, name), func(variable string) (string, error) {
		if value, known := variables[variable]; known {
			return value, nil
		}
		return "", fmt.Errorf("no value for %s", variable)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func chartsFleet(t *testing.T, values []string) []byte {
	t.Helper()
	binary, err := helm.Binary(root)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), binary, "template", "macfleet", filepath.Join(root, "charts", "macfleet"),
		"--namespace", Namespace, "--set", strings.Join(values, ",")).Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fleetObjects are the objects of a fleet, without what says who made them.
func fleetObjects(t *testing.T, text []byte) map[string]any {
	t.Helper()
	objects, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for _, object := range objects {
		group := object.GroupVersionKind().Group
		if !strings.HasSuffix(group, "cluster.x-k8s.io") && object.GetName() != "macfleet-no-bootstrap-data" {
			continue
		}
		labels := object.GetLabels()
		for label := range labels {
			if strings.HasPrefix(label, "app.kubernetes.io/") {
				delete(labels, label)
			}
		}
		if object.SetLabels(labels); len(labels) == 0 {
			object.SetLabels(nil)
		}
		// The chart hashes a template's content into its name.
		plain, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		var again map[string]any
		if err := yaml.Unmarshal(templateName.ReplaceAll(plain, []byte("macfleet-macs")), &again); err != nil {
			t.Fatal(err)
		}
		found[object.GetKind()] = again
	}
	return found
}
