package chart

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// wipe is how long a reinstall was seen to take at most: a health check that gives
// up sooner makes a storm of wipes.
const wipeSeconds = 45 * 60

func TestHealthChecksAreOffByDefault(t *testing.T) {
	for name, args := range map[string][]string{
		"unsaid":   set("fleets.builders.zone=fr-par-1"),
		"disabled": set("fleets.builders.zone=fr-par-1", "fleets.builders.healthCheck.enabled=false"),
	} {
		for _, object := range objects(t, args...) {
			if kind := object.GetKind(); kind == "MachineHealthCheck" || kind == "ScalewayAppleSiliconRemediationTemplate" {
				t.Errorf("%s: renders a %s", name, kind)
			}
		}
	}
}

func TestHealthCheckOutlivesAWipe(t *testing.T) {
	rendered := objects(t, set("fleets.builders.zone=fr-par-1", "fleets.builders.healthCheck.enabled=true")...)
	check, template := named(rendered, "MachineHealthCheck", "macfleet-builders"), named(rendered, "ScalewayAppleSiliconRemediationTemplate", "macfleet-builders")
	if check == nil || template == nil {
		t.Fatal("no MachineHealthCheck, or no template")
	}
	if got := number(t, check, "spec", "checks", "nodeStartupTimeoutSeconds"); got < 2*wipeSeconds {
		t.Errorf("a Node is awaited for %d s; a wipe takes up to %d s, and a bootstrap comes after it", got, wipeSeconds)
	}
	if got := number(t, check, "spec", "remediation", "triggerIf", "unhealthyLessThanOrEqualTo"); got != 2 {
		t.Errorf("acts with up to %d unhealthy Macs at once, want 2", got)
	}
	if got, _, _ := unstructured.NestedString(check.Object, "spec", "remediation", "templateRef", "name"); got != template.GetName() {
		t.Errorf("templateRef = %q, want %q", got, template.GetName())
	}
	if got, _, _ := unstructured.NestedStringMap(check.Object, "spec", "selector", "matchLabels"); got["tuist.dev/fleet"] != "macfleet-builders" {
		t.Errorf("selects %v, want the Machines of the fleet", got)
	}
}

func number(t *testing.T, object *unstructured.Unstructured, path ...string) int64 {
	t.Helper()
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err != nil || !found {
		t.Fatalf("no %v: %v", path, err)
	}
	var n int64
	if _, err := fmt.Sscan(fmt.Sprint(value), &n); err != nil {
		t.Fatalf("%v = %v", path, value)
	}
	return n
}

func TestHealthCheckValues(t *testing.T) {
	on := []string{"fleets.builders.zone=fr-par-1", "fleets.builders.healthCheck.enabled=true"}
	rendered := objects(t, set(append(on, "fleets.builders.healthCheck.rebootSeconds=0", "fleets.builders.healthCheck.nodeStartupSeconds=0", "fleets.builders.healthCheck.maxUnhealthy=40%")...)...)
	template := named(rendered, "ScalewayAppleSiliconRemediationTemplate", "macfleet-builders")
	if got := number(t, template, "spec", "template", "spec", "rebootTimeoutSeconds"); got != 0 {
		t.Errorf("reboot = %d although it was switched off", got)
	}
	check := named(rendered, "MachineHealthCheck", "macfleet-builders")
	if got, _, _ := unstructured.NestedString(check.Object, "spec", "remediation", "triggerIf", "unhealthyLessThanOrEqualTo"); got != "40%" {
		t.Errorf("maxUnhealthy = %q", got)
	}
	for value, says := range map[string]string{
		"nodeStartupSeconds=600": "nodeStartupSeconds 600: give 3600 or more", // core's default
		"unreadySeconds=5":       "unreadySeconds",
		"rebootSeconds=-1":       "rebootSeconds",
		"maxUnhealthy=forty":     `maxUnhealthy "forty": give a number of Macs`,
		"maxUnhealthy=0":         "maxUnhealthy 0: no Mac would ever be mended",
		"maxUnhealthy=0%":        "maxUnhealthy 0%: no Mac would ever be mended",
		"maxUnhealthy=101%":      "give a number of Macs",
		"timeout=1":              "'timeout' not allowed",
	} {
		_, refusal, err := render(t.Context(), set(append(on, "fleets.builders.healthCheck."+value)...)...)
		if err != nil || !strings.Contains(refusal, says) {
			t.Errorf("%s: refusal = %q, %v", value, refusal, err)
		}
	}
}
