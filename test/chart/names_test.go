package chart

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Who comes from the first system keeps its names: of MachineDeployments, and so of
// Machines and servers, of the label that selects them, and of the fleets' Secrets.
func TestNamesCanStayWhatTheyWere(t *testing.T) {
	args := set("fullnameOverride=tuist-tuist", "fleets.macos-fleet.zone=fr-par-1", "fleets.macos-fleet.healthCheck.enabled=true",
		"fleets.ci.zone=fr-par-1", "fleets.ci.name=tuist-tuist-runners-fleet", "orphanReclaim.activeReclaim=true")
	found := objectsOf(t, "tuist", args...)
	for _, fleet := range []string{"tuist-tuist-macos-fleet", "tuist-tuist-runners-fleet"} {
		deployment := named(found, "MachineDeployment", fleet)
		if deployment == nil || named(found, "MacNodeProfile", fleet) == nil {
			t.Fatalf("no MachineDeployment or MacNodeProfile %s", fleet)
		}
		if got, _, _ := unstructured.NestedString(deployment.Object, "spec", "template", "metadata", "labels", "tuist.dev/fleet"); got != fleet {
			t.Errorf("the label of %s is %q", fleet, got)
		}
		template, _, _ := unstructured.NestedString(deployment.Object, "spec", "template", "spec", "infrastructureRef", "name")
		object := named(found, "ScalewayAppleSiliconMachineTemplate", template)
		if object == nil {
			t.Fatalf("no template %s", template)
		}
		// The Secrets are <fleetName>-ssh and <fleetName>-agent-signing.
		if got, _, _ := unstructured.NestedString(object.Object, "spec", "template", "spec", "fleetName"); got != fleet {
			t.Errorf("fleetName of %s is %q", fleet, got)
		}
	}
	if named(found, "MachineHealthCheck", "tuist-tuist-macos-fleet") == nil {
		t.Error("the health check is named otherwise")
	}
	if named(found, "Deployment", "tuist-tuist-manager") == nil {
		t.Error("the manager is named otherwise")
	}
	if got, _ := flagValue(managerFlagsOf(t, "tuist", args...), claimNamePrefix); got != "tuist-tuist-" {
		t.Errorf("--%s = %q", claimNamePrefix, got)
	}
}

func TestClaimNamePrefixCanBeSaid(t *testing.T) {
	flags := managerFlags(t, set("fleets.a.zone=fr-par-1", "fleets.a.name=tuist-tuist-a", "orphanReclaim.activeReclaim=true", "orphanReclaim.claimNamePrefix=tuist-tuist-")...)
	if got, _ := flagValue(flags, claimNamePrefix); got != "tuist-tuist-" {
		t.Errorf("--%s = %q", claimNamePrefix, got)
	}
}

func TestWrongNamesAreRefused(t *testing.T) {
	zone := "fleets.a.zone=fr-par-1"
	for name, c := range map[string]struct {
		values []string
		says   string
	}{
		"full name":                  {[]string{"fullnameOverride=Our.Macs"}, `fullnameOverride "Our.Macs" is no name`},
		"full name, too long":        {[]string{"fullnameOverride=a23456789-123456789-123456789-1"}, "2 to 30 lower-case letters"},
		"full name, of one letter":   {[]string{"fullnameOverride=a"}, "2 to 30 lower-case letters"},
		"fleet's name":               {[]string{zone, "fleets.a.name=A"}, `fleets.a.name "A" is no name`},
		"fleet's name, too long":     {[]string{zone, "fleets.a.name=" + strings.Repeat("a", 62)}, "up to 61 lower-case letters"},
		"two fleets of one name":     {[]string{zone, "fleets.b.zone=fr-par-1", "fleets.b.name=macfleet-a"}, `fleets.a and fleets.b are both named "macfleet-a"`},
		"claim prefix":               {[]string{"orphanReclaim.claimNamePrefix=tuist"}, "a dash at the end"},
		"fleet out of reclaim":       {[]string{zone, "fleets.a.name=other", "orphanReclaim.activeReclaim=true"}, `does not begin with the prefix of claimed names "macfleet-"`},
		"prefix of nobody's":         {[]string{zone, "orphanReclaim.activeReclaim=true", "orphanReclaim.claimNamePrefix=tuist-tuist-"}, "its stranded Macs would stay so"},
		"name that the pool starts":  {[]string{zone, "fleets.a.name=tuist-pool-a"}, "start with pool.prefix"},
		"claims that the pool start": {[]string{"orphanReclaim.claimNamePrefix=tuist-pool-a-"}, "choose another prefix"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, c.says, c.values...) })
	}
}

// refused fails the test unless the chart refuses the values with these words.
func refused(t *testing.T, says string, values ...string) {
	t.Helper()
	_, refusal, err := render(t.Context(), set(values...)...)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(refusal, says) {
		t.Errorf("refusal = %q; it should say %q", refusal, says)
	}
}
