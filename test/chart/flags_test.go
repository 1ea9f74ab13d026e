package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const claimNamePrefix = "orphan-reclaim-claim-name-prefix"

// The zones, the pool and the prefix of claimed names are said once, in the values
// they belong to; the sweep's flags follow.
func TestRequirement001_ChartReportsOnlyByDefault(t *testing.T) {
	flags := managerFlags(t, set("fleets.builders.zone=fr-par-1")...)
	for name, want := range map[string]string{"default-adopt-pool-prefix": "tuist-pool-", "orphan-reclaim-zones": "fr-par-1"} {
		if got, _ := flagValue(flags, name); got != want {
			t.Errorf("--%s = %q, want %q", name, got, want)
		}
	}
	if got, _ := flagValue(flags, "claim-name-prefix"); got != "macfleet-" {
		t.Errorf("--claim-name-prefix = %q: stranded hosts would be reported as foreign", got)
	}
	if got, found := flagValue(flags, claimNamePrefix); found {
		t.Errorf("--%s=%s: the sweep must only report until somebody says otherwise", claimNamePrefix, got)
	}
}

func TestRequirement001_ChartActiveReclaimDerivesTheClaimNamePrefix(t *testing.T) {
	for release, want := range map[string]string{"macfleet": "macfleet-", "tuist": "tuist-macfleet-"} {
		flags := managerFlagsOf(t, release, set("fleets.builders.zone=fr-par-1", "orphanReclaim.activeReclaim=true")...)
		if got, _ := flagValue(flags, claimNamePrefix); got != want {
			t.Errorf("--%s = %q in the release %s, want its full name and a dash", claimNamePrefix, got, release)
		}
	}
}

func TestRequirement001_ChartSweepsTheZonesOfAllFleets(t *testing.T) {
	flags := managerFlags(t, set("fleets.z.zone=nl-ams-1", "fleets.a.zone=nl-ams-1", "fleets.b.zone=fr-par-3", "fleets.c.zone=fr-par-1", "pool.prefix=our-pool-")...)
	if got, _ := flagValue(flags, "orphan-reclaim-zones"); got != "fr-par-1,fr-par-3,nl-ams-1" {
		t.Errorf("zones = %q: each fleet's once, sorted", got)
	}
	if got, _ := flagValue(flags, "default-adopt-pool-prefix"); got != "our-pool-" {
		t.Errorf("pool prefix = %q", got)
	}
	without := managerFlags(t)
	if got, found := flagValue(without, "orphan-reclaim-zones"); found {
		t.Errorf("zones = %q without a fleet", got)
	}
}

// What the chart claims as its own are the names it gives: a fleet's Machines, and
// so their servers, start with the prefix that the sweep may reclaim.
func TestRequirement001_ChartClaimedNamesBearThePrefix(t *testing.T) {
	args := set("fleets.builders.zone=fr-par-1", "orphanReclaim.activeReclaim=true")
	prefix, _ := flagValue(managerFlags(t, args...), claimNamePrefix)
	if named(objects(t, args...), "MachineDeployment", prefix+"builders") == nil {
		t.Errorf("no MachineDeployment %sbuilders: its Machines would not be reclaimed", prefix)
	}
}

func TestRequirement003_ChartSetsTheRecoveryThresholds(t *testing.T) {
	flags := managerFlags(t)
	for _, want := range []string{"--bootstrap-reboot-after=3", "--bootstrap-max-attempts=8"} {
		if !slices.Contains(flags, want) {
			t.Errorf("%s is not among %q", want, flags)
		}
	}
	if got, _ := flagValue(flags, "bootstrap-recover-after"); got != "5m" {
		t.Errorf("--bootstrap-recover-after = %q", got)
	}
	off := managerFlags(t, set("manager.bootstrapRebootAfter=0", "manager.bootstrapMaxAttempts=0")...)
	for _, want := range []string{"--bootstrap-reboot-after=0", "--bootstrap-max-attempts=0"} {
		if !slices.Contains(off, want) {
			t.Errorf("%s is not among %q: a tier could not be switched off", want, off)
		}
	}
}

func TestTimesReachTheManager(t *testing.T) {
	flags := managerFlags(t, set("manager.reinstallTimeout=1h30m", "manager.reclaimInterval=5m", "manager.inventoryInterval=10s", "manager.vendorQPS=20", "manager.driftCheckInterval=2h")...)
	for _, want := range []string{"--reinstall-timeout=1h30m", "--orphan-reclaim-interval=5m", "--inventory-interval=10s", "--vendor-qps=20", "--drift-check-interval=2h"} {
		if !slices.Contains(flags, want) {
			t.Errorf("%s is not among %q", want, flags)
		}
	}
}

// A flag that the manager does not know ends its start; values that are off by
// default would be found out late.
func TestTheManagerKnowsEveryFlag(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "cmd", "manager", "flags.go"))
	if err != nil {
		t.Fatal(err)
	}
	flags := managerFlags(t, set("fleets.builders.zone=fr-par-1", "orphanReclaim.activeReclaim=true", "manager.apiServerURL=https://api.example")...)
	for _, one := range flags {
		name, _, _ := strings.Cut(strings.TrimPrefix(one, "--"), "=")
		if !strings.Contains(string(source), `"`+name+`"`) {
			t.Errorf("the manager has no flag --%s", name)
		}
	}
}

func TestHostsOfAnUnknownPastAreTrustedByDefault(t *testing.T) {
	if got, found := flagValue(managerFlags(t), "trust-unseen"); found {
		t.Errorf("--trust-unseen=%s by default", got)
	}
	if got, _ := flagValue(managerFlags(t, set("pool.trustUnseen=false")...), "trust-unseen"); got != "false" {
		t.Errorf("--trust-unseen=%q with pool.trustUnseen=false", got)
	}
}
