package host_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// zoneOf is a zone of hosts, the first of which were disturbed so long ago.
func zoneOf(all int, disturbed ...time.Duration) []infrav1.ScalewayAppleSiliconHost {
	hosts := make([]infrav1.ScalewayAppleSiliconHost, all)
	for i := range hosts {
		hosts[i].Name, hosts[i].Spec.Zone = string(rune('a'+i)), "z"
		if i < len(disturbed) {
			host.RecordDisruption(&hosts[i], noon().Add(-disturbed[i]))
		}
	}
	return hosts
}

func TestDestructionIsBlocked(t *testing.T) {
	elsewhere := zoneOf(10, 0, 0)
	elsewhere[0].Spec.Zone, elsewhere[1].Spec.Zone = "y", "y"
	rebooted := zoneOf(4)
	host.AskForReboot(&rebooted[0], "t-1", "x", noon().Add(-time.Minute))
	for name, row := range map[string]struct {
		hosts    []infrav1.ScalewayAppleSiliconHost
		report   host.ZoneReport
		unlisted bool
		want     string
	}{
		"calm":                   {hosts: zoneOf(4)},
		"one of a few":           {hosts: zoneOf(4, time.Minute), want: infrav1.ReasonStormGuard},
		"a reboot counts, too":   {hosts: rebooted, want: infrav1.ReasonStormGuard},
		"just within the hour":   {hosts: zoneOf(4, time.Hour-time.Second), want: infrav1.ReasonStormGuard},
		"the hour is over":       {hosts: zoneOf(4, time.Hour)},
		"less than a fifth":      {hosts: zoneOf(10, 0)},
		"a fifth":                {hosts: zoneOf(10, 0, 0), want: infrav1.ReasonStormGuard},
		"a fifth, rounded down":  {hosts: zoneOf(9, 0), want: infrav1.ReasonStormGuard},
		"in another zone":        {hosts: elsewhere},
		"no list yet":            {hosts: zoneOf(4), unlisted: true, want: infrav1.ReasonVendorFailing},
		"the list failed":        {hosts: zoneOf(4), report: host.ZoneReport{Err: errors.New("no")}, want: infrav1.ReasonVendorFailing},
		"calls fail":             {hosts: zoneOf(4), report: host.ZoneReport{Failing: true}, want: infrav1.ReasonVendorFailing},
		"the list is suspicious": {hosts: zoneOf(4), report: host.ZoneReport{Suspicious: true}, want: infrav1.ReasonInventorySuspicious},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.DestructionBlocked("z", row.hosts, row.report, !row.unlisted, noon()); got.Reason != row.want || (got.Message == "") != (row.want == "") {
				t.Errorf("held: %+v, want %q", got, row.want)
			}
		})
	}
}

// Who sees a Mac rebooted under a guard that holds everything reads why it may be.
func TestTheStormGuardSaysWhoGoesOn(t *testing.T) {
	got := host.DestructionBlocked("z", zoneOf(5, time.Minute), host.ZoneReport{}, true, noon()).Message
	for _, part := range []string{"1 of 5 hosts in zone z", "; 1 may be", "counted here still goes on to the next step of its own recovery"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q does not say %q", got, part)
		}
	}
}
