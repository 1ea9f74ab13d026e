package chart

import "testing"

// The first system's values do nothing here, and none of them is passed over.
func TestOldValuesAreRefusedWithWhatTheyAreNow(t *testing.T) {
	const zone = "fleets.a.zone=fr-par-1"
	for value, says := range map[string]string{
		"macosFleet.enabled=true":                            "each fleet is now an entry of fleets",
		"macosFleet.replicas=2":                              "macosFleet.replicas is a value of the first system: it is now fleets.<name>.replicas",
		"macosFleet.machine.zone=fr-par-1":                   "it is now fleets.<name>.zone",
		"macosFleet.adoptPoolPrefix=tuist-pool-":             "it is now pool.prefix",
		"macosFleet.orphanReclaim.activeReclaim=true":        "it is now orphanReclaim.activeReclaim, without macosFleet",
		"macosFleet.apiServerURL=https://a":                  "it is now manager.apiServerURL",
		"macosFleet.scaleway.secretName=a":                   "it is now vendorCredentialsSecret",
		"macosFleet.tailscale.enabled=true":                  "macosFleet.tailscale is a value of the first system: it is now gone",
		"runnersFleet.hostCount=3":                           "such as fleets.runners-fleet.zone, and its hostCount is .replicas",
		"buildersFleet.hostCount=3":                          "such as fleets.builders-fleet.zone",
		"rackFleet.hosts[0].name=a":                          "macfleet has no Macs in racks",
		"machine.zone=fr-par-1":                              "machine.zone, .type and .os are now fleets.<name>.zone",
		"fleets.a.machine.zone=fr-par-1":                     "fleets.a.machine is a value of the first system: it is now fleets.a.zone, .type and .os",
		"fleets.a.hostCount=3":                               "it is now fleets.a.replicas",
		"fleets.a.adoptPoolPrefix=x-":                        "the prefix is pool.prefix",
		"fleets.a.maxPods=2":                                 "it is now fleets.a.profile.maxVMs",
		"capi.enabled=true":                                  "capi.enabled is a value of the first system",
		"capi.remoteKubeconfig.externalSecrets.enabled=true": "write capi.remoteKubeconfig=externalSecret",
	} {
		t.Run(value, func(t *testing.T) { refused(t, says, zone, value) })
	}
	t.Run("without any fleet", func(t *testing.T) { refused(t, "it is now fleets.<name>.zone", "macosFleet.machine.zone=fr-par-1") })
	t.Run("in a fleet without a zone", func(t *testing.T) { refused(t, "it is now fleets.a.zone", "fleets.a.machine.zone=fr-par-1") })
}
