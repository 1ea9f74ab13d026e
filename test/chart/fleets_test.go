package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestFleetsGolden compares what a plain fleet and one that says everything become.
// Run it with -update after a change that is meant.
func TestFleetsGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"plain": set("fleets.builders.zone=fr-par-1", "fleets.builders.replicas=3"),
		"full":  {"--values", filepath.Join("testdata", "full-values.yaml")},
	} {
		t.Run(name, func(t *testing.T) {
			out, refusal, err := render(t.Context(), append(args, "--show-only", "templates/fleets.yaml", "--show-only", "templates/cluster.yaml")...)
			if err != nil || refusal != "" {
				t.Fatal(err, refusal)
			}
			golden := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(out), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(bytes.TrimSpace(want)), string(bytes.TrimSpace([]byte(out)))); diff != "" {
				t.Errorf("the chart renders otherwise (-golden +now):\n%s", diff)
			}
		})
	}
}

// A rollout deletes no Mac by itself: the operator deletes Machines one by one.
func TestRequirement000_ChartStrategyIsOnDelete(t *testing.T) {
	strategy := func(args ...string) string {
		deployment := named(objects(t, args...), "MachineDeployment", "macfleet-builders")
		if deployment == nil {
			t.Fatal("no MachineDeployment")
		}
		kind, _, err := unstructured.NestedString(deployment.Object, "spec", "rollout", "strategy", "type")
		if err != nil {
			t.Fatal(err)
		}
		return kind
	}
	if got := strategy(set("fleets.builders.zone=fr-par-1")...); got != "OnDelete" {
		t.Errorf("strategy = %s", got)
	}
	if got := strategy(set("fleets.builders.zone=fr-par-1", "fleets.builders.strategy=RollingUpdate")...); got != "RollingUpdate" {
		t.Errorf("strategy = %s although RollingUpdate was asked for", got)
	}
}

// A template can't change, so that another wish needs another name: else an upgrade
// of the release would be refused.
func TestAnotherWishIsAnotherTemplate(t *testing.T) {
	template := func(values ...string) string {
		for _, object := range objects(t, set(append([]string{"fleets.builders.zone=fr-par-1"}, values...)...)...) {
			if object.GetKind() == "ScalewayAppleSiliconMachineTemplate" {
				return object.GetName()
			}
		}
		t.Fatal("no template")
		return ""
	}
	seen := map[string]string{template(): "nothing"}
	for _, value := range []string{
		"fleets.builders.type=M2-L", "fleets.builders.os=tahoe", "fleets.builders.releasePolicy=Detach",
		"fleets.builders.hostSelector.matchLabels.a=b", "pool.prefix=our-pool-",
	} {
		name := template(value)
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s give the same template %s", value, other, name)
		}
		seen[name] = value
	}
	if template("fleets.builders.replicas=5") != template() {
		t.Error("the number of replicas changes the template")
	}
}
