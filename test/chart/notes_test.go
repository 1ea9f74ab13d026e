package chart

import (
	"os/exec"
	"strings"
	"testing"
)

// notes are what an installation would print.
func notes(t *testing.T, args ...string) string {
	t.Helper()
	binary, err := helmBinary()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"install", "macfleet", chartDir, "--namespace", "macfleet-system", "--dry-run=client"}, args...)
	out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, after, found := strings.Cut(string(out), "NOTES:")
	if !found {
		t.Fatalf("no notes in:\n%s", out)
	}
	return after
}

func TestTheNotesRecommendAHealthCheck(t *testing.T) {
	fleets := []string{"fleets.builders.zone=fr-par-1", "fleets.testers.zone=fr-par-1"}
	if got := notes(t, set(append(fleets, "fleets.testers.healthCheck.enabled=true")...)...); !strings.Contains(got, "after the Macs of builders: one that hangs") {
		t.Errorf("the notes do not name the fleet without a check:\n%s", got)
	}
	if got := notes(t, set(append(fleets, "fleets.testers.healthCheck.enabled=true", "fleets.builders.healthCheck.enabled=true")...)...); strings.Contains(got, "health check") {
		t.Errorf("the notes speak of checks although each fleet has one:\n%s", got)
	}
	if got := notes(t); strings.Contains(got, "health check") {
		t.Errorf("the notes speak of checks without a fleet:\n%s", got)
	}
}
