package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// counted is as the metrics would show it.
func (w *world) counted() gauges {
	w.t.Helper()
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	w.must(w.client.List(w.ctx, hosts))
	w.must(w.client.List(w.ctx, machines))
	return count(hosts.Items, []host.Owners{host.OwnersOf(machines.Items)}, NewSweep(w.r).naming(machines.Items), w.clock.Now())
}

func TestHostsThatWaitForAPersonAreCounted(t *testing.T) {
	because := func(condition, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: condition, Status: metav1.ConditionFalse, Reason: reason}}
	}
	released := infrav1.ScalewayAppleSiliconHostSpec{Release: &infrav1.Release{}}
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	wiped := func(policy infrav1.ReleasePolicy, ago time.Duration) infrav1.ScalewayAppleSiliconHostSpec {
		asked, seen := metav1.NewMicroTime(now.Add(-ago-time.Hour)), metav1.NewMicroTime(now.Add(-ago))
		return infrav1.ScalewayAppleSiliconHostSpec{
			Release: &infrav1.Release{Policy: policy}, Record: infrav1.HostRecord{Wipe: infrav1.WipeRecord{RequestedAt: &asked, ObservedAt: &seen}},
		}
	}
	wished := infrav1.ScalewayAppleSiliconHostSpec{Adopt: &infrav1.Adoption{}}
	for name, c := range map[string]struct {
		phase      infrav1.HostPhase
		spec       infrav1.ScalewayAppleSiliconHostSpec
		conditions []metav1.Condition
		counted    string
	}{
		"named into the pool unwiped": {phase: infrav1.HostDirty, conditions: because(infrav1.AvailableCondition, "NotWiped"), counted: "notwiped"},
		// pool.trustUnseen is false: it is wiped by itself.
		"of an unknown past": {phase: infrav1.HostDirty, conditions: because(infrav1.AvailableCondition, host.ReasonNeverSeenWiped)},
		"renamed on its way": {infrav1.HostReleasing, released, because(infrav1.NameInSyncCondition, infrav1.ReasonChangedByOther), "held"},
		"renamed in use":     {phase: infrav1.HostInUse, conditions: because(infrav1.NameInSyncCondition, infrav1.ReasonChangedByOther)},
		"an adoption waits":  {infrav1.HostForeign, wished, because(host.AdoptedCondition, host.ReasonBadPrefix), "adoption"},
		"an adoption begins": {phase: infrav1.HostForeign, spec: wished},

		"a name that is refused":       {phase: infrav1.HostWiping, spec: wiped(infrav1.Recycle, 10*time.Minute), counted: "unnamed"},
		"a name that is given":         {phase: infrav1.HostWiping, spec: wiped(infrav1.Recycle, 9*time.Minute)},
		"given back at the floor":      {phase: infrav1.HostRetiring, spec: wiped(infrav1.Terminate, time.Hour)},
		"wiped once, and to be again":  {phase: infrav1.HostReleasing, spec: infrav1.ScalewayAppleSiliconHostSpec{Release: wiped(infrav1.Recycle, 0).Release, Record: infrav1.HostRecord{Wipe: infrav1.WipeRecord{ObservedAt: wiped("", time.Hour).Record.Wipe.ObservedAt}}}},
		"renamed by others once wiped": {infrav1.HostWiping, wiped(infrav1.Recycle, time.Hour), because(infrav1.NameInSyncCondition, infrav1.ReasonChangedByOther), "held"},
	} {
		h := infrav1.ScalewayAppleSiliconHost{Spec: c.spec}
		h.Spec.Zone = zone
		h.Status.Phase, h.Status.Conditions = c.phase, c.conditions
		g := count([]infrav1.ScalewayAppleSiliconHost{h}, nil, host.Naming{}, now)
		for _, reason := range []string{"notwiped", "held", "unnamed", "adoption"} {
			if got := testutil.ToFloat64(g.blocked.WithLabelValues(zone, reason)); got != toFloat(reason == c.counted) {
				t.Errorf("%s: %v of %s, want %q counted alone", name, got, reason, c.counted)
			}
		}
	}
}

func TestHostsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.another(2) // foreign names
	w.cloud.Change(serverID, func(s *cloud.Server) { s.DeletableAt = w.clock.Now().Add(time.Hour) })
	w.untilPhase(infrav1.HostAvailable)
	for i := range 2 {
		w.reconcileOf(fmt.Sprintf("%s-00000000-0000-4000-8000-%012d", zone, i))
	}
	leading := false
	registry := prometheus.NewRegistry()
	if _, err := register(registry, &collector{w.client, func() bool { return leading }, NewSweep(w.r), w.clock}); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d series from a manager that does not lead, %v", n, err)
	}
	leading = true
	want := `
# HELP macfleet_blocked_hosts Hosts on their way into the pool that go no further without a person; reason notwiped: in the pool by name but not clean, held: released but renamed by others, unnamed: wiped a while ago but not named into the pool, adoption: to be adopted and something is in the way.
# TYPE macfleet_blocked_hosts gauge
macfleet_blocked_hosts{reason="adoption",zone="fr-par-1"} 0
macfleet_blocked_hosts{reason="held",zone="fr-par-1"} 0
macfleet_blocked_hosts{reason="notwiped",zone="fr-par-1"} 0
macfleet_blocked_hosts{reason="unnamed",zone="fr-par-1"} 0
# HELP macfleet_host_billed_until_seconds Unix time until which the vendor bills at least, the latest of the hosts of a zone and type.
# TYPE macfleet_host_billed_until_seconds gauge
macfleet_host_billed_until_seconds{type="M2-L",zone="fr-par-1"} 1.7951796e+09
# HELP macfleet_hosts Hosts by zone, type and phase.
# TYPE macfleet_hosts gauge
macfleet_hosts{phase="Available",type="M2-L",zone="fr-par-1"} 1
macfleet_hosts{phase="Foreign",type="",zone="fr-par-1"} 2
# HELP scaleway_orphan_servers Servers that are neither in the pool, nor being adopted or released, nor matched by a live Machine; kind stranded: once ours, foreign: named by others.
# TYPE scaleway_orphan_servers gauge
scaleway_orphan_servers{kind="foreign",zone="fr-par-1"} 2
scaleway_orphan_servers{kind="stranded",zone="fr-par-1"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// The Machines of the cache and those elsewhere are asked one after the other.
func TestAMachineOfTheServersNameMakesItForeignForAll(t *testing.T) {
	h := host.New(zone, serverID, "")
	h.Status.Server.Name = claimedPrefix + "m-1"
	m := infrav1.ScalewayAppleSiliconMachine{}
	m.Name, m.Status.ServerID = h.Status.Server.Name, strayID(1)
	has, nobody := host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{m}), host.OwnersOf(nil)
	for _, owners := range [][]host.Owners{{has, nobody}, {nobody, has}} {
		if kind := strayKind(h, owners, host.Naming{Claimed: claimedPrefix}); kind != host.ForeignStray {
			t.Errorf("got %q", kind)
		}
	}
}
