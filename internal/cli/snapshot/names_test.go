package snapshot

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func TestNamesWithTheirKind(t *testing.T) {
	for _, c := range []struct {
		typed string
		kind  Kind
		want  string
	}{
		{"h", Hosts, "h"},
		{"scalewayapplesiliconhost/h", Hosts, "h"},
		{"scalewayapplesiliconhosts/h", Hosts, "h"},
		{"sash/h", Hosts, "h"},
		{"ScalewayAppleSiliconHost/h", Hosts, "h"},
		{"scalewayapplesiliconhost.infrastructure.cluster.x-k8s.io/h", Hosts, "h"},
		{"sash.infrastructure.cluster.x-k8s.io/h", Hosts, "h"},
		{"sash.example.com/h", Hosts, "sash.example.com/h"}, // somebody else's
		{"sash/", Hosts, "sash/"},                           // a host may have no server's name, which this is not
		{"/h", Hosts, "/h"},
		{"samm/m", Hosts, "samm/m"},
		{"ns/m", Machines, "ns/m"},
		{"samm/ns/m", Machines, "ns/m"},
		{"machine.cluster.x-k8s.io/m", CoreMachines, "m"},
		{"machinedeployment.cluster.x-k8s.io/f", Fleets, "f"},
		{"externalcontrolplane.controlplane.cluster.x-k8s.io/c", ControlPlanes, "c"},
		{"pod/p", Pods, "p"},
		{"po/p", Pods, "p"},
		{"node/n", Nodes, "node/n"}, // no verb names these
	} {
		if got := WithoutKind(c.typed, Nodes, c.kind); got != c.want {
			t.Errorf("%s, where %s are named: %q, want %q", c.typed, c.kind, got, c.want)
		}
	}
}

// Kinds are called what our CustomResourceDefinitions call them.
func TestKindsAreCalledWhatTheClusterCallsThem(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "charts", "macfleet", "crds", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		names := crd.Spec.Names
		words, group := Kind(names.Plural).words()
		if words == nil {
			continue
		}
		seen++
		if want := append([]string{names.Plural, names.Singular}, names.ShortNames...); !slices.Equal(words, want) || group != crd.Spec.Group {
			t.Errorf("%s are called %v of %q, and in %s %v of %q", names.Plural, words, group, filepath.Base(file), want, crd.Spec.Group)
		}
	}
	if seen != 5 {
		t.Errorf("%d of the 5 kinds that are ours have a CustomResourceDefinition", seen)
	}
}
