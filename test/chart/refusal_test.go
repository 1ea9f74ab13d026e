package chart

import (
	"strings"
	"testing"
)

func TestNonsenseIsRefusedWithASentence(t *testing.T) {
	zone := "fleets.builders.zone=fr-par-1"
	for name, c := range map[string]struct {
		values []string
		says   string
	}{
		"fleet without a zone":         {[]string{"fleets.builders.replicas=1"}, "missing property 'zone'"},
		"no zone":                      {[]string{"fleets.builders.zone=Paris"}, "/fleets/builders/zone"},
		"point release":                {[]string{zone, "fleets.builders.os=tahoe-26.0"}, "/fleets/builders/os"},
		"misspelt key":                 {[]string{zone, "fleets.builders.replica=1"}, "'replica' not allowed"},
		"strategy":                     {[]string{zone, "fleets.builders.strategy=Recreate"}, "'OnDelete', 'RollingUpdate'"},
		"acquisition":                  {[]string{zone, "fleets.builders.acquisition=Buy"}, "'Adopt', 'Order'"},
		"release policy":               {[]string{zone, "fleets.builders.releasePolicy=Wipe"}, "'Recycle', 'Terminate', 'Detach'"},
		"host selector":                {[]string{zone, "fleets.builders.hostSelector.labels.a=b"}, "'labels' not allowed"},
		"order of no type":             {[]string{zone, "fleets.builders.acquisition=Order"}, "fleets.builders orders servers: say in fleets.builders.type which"},
		"order of what exists":         {[]string{zone, "fleets.builders.acquisition=Order", "fleets.builders.type=M2-L", "fleets.builders.hostSelector.matchLabels.a=b"}, "leave it out"},
		"three guests":                 {[]string{zone, "fleets.builders.profile.maxVMs=3"}, "/fleets/builders/profile/maxVMs"},
		"pool without a dash":          {[]string{"pool.prefix=pool"}, "/pool/prefix"},
		"pool that starts our names":   {[]string{"pool.prefix=macfleet-"}, "choose another prefix"},
		"fleet that starts as a pool":  {[]string{"fleets.pool.zone=fr-par-1", "pool.prefix=macfleet-pool-"}, "name the fleet otherwise"},
		"reclaim of the pool":          {[]string{zone, "pool.prefix=macfleet-pool-", "orphanReclaim.activeReclaim=true"}, "could be taken for a stranded one"},
		"reclaim maybe":                {[]string{"orphanReclaim.activeReclaim=maybe"}, "/orphanReclaim/activeReclaim"},
		"kubeconfig of an unknown way": {[]string{"capi.remoteKubeconfig=mint"}, "'managed', 'externalSecret', 'none'"},
		"external, of no store":        {[]string{"capi.remoteKubeconfig=externalSecret"}, "capi.externalSecret.storeRef.name"},
		"time without a unit":          {[]string{"manager.reinstallTimeout=45"}, "/manager/reinstallTimeout"},
		"attempts below zero":          {[]string{"manager.bootstrapMaxAttempts=-1"}, "/manager/bootstrapMaxAttempts"},
		"credentials in no Secret":     {[]string{"vendorCredentialsSecret="}, "/vendorCredentialsSecret"},
	} {
		t.Run(name, func(t *testing.T) {
			_, refusal, err := render(t.Context(), set(c.values...)...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(refusal, c.says) {
				t.Errorf("refusal = %q; it should say %q", refusal, c.says)
			}
		})
	}
}
