package host_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

func machine(name string, change func(*infrav1.ScalewayAppleSiliconMachine)) infrav1.ScalewayAppleSiliconMachine {
	m := infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}}
	if change != nil {
		change(&m)
	}
	return m
}

const claimedPrefix = "tuist-tuist-"

func naming() host.Naming { return host.Naming{Pools: []string{"", prefix}, Claimed: claimedPrefix} }

// stray is a claimed host of this cluster whose Machine is gone.
func stray(h *host.Host) {
	claimed(h)
	h.Spec.ClaimRef.Name = claimedPrefix + "m-1"
	h.Status.Server.Name = claimedPrefix + "m-1"
}

func means(token string) func(*infrav1.ScalewayAppleSiliconMachine) {
	return func(m *infrav1.ScalewayAppleSiliconMachine) {
		m.Spec.HostRef = &infrav1.HostReference{Name: host.ObjectName(zone, serverID), ClaimToken: token}
	}
}

// otherID is of another server than the host's.
const otherID = "00000000-0000-4000-8000-000000000007"

// elsewhere are the ways in which a Machine says that it has that server.
func elsewhere() map[string]func(*infrav1.ScalewayAppleSiliconMachine) {
	return map[string]func(*infrav1.ScalewayAppleSiliconMachine){
		"spec.providerID": func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.ProviderID = host.ProviderID(zone, otherID) },
		"status.serverID": func(m *infrav1.ScalewayAppleSiliconMachine) { m.Status.ServerID = otherID },
		"spec.hostRef": func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Spec.HostRef = &infrav1.HostReference{Name: host.ObjectName(zone, otherID), ClaimToken: "t-2"}
		},
	}
}

// A name alone accounts for a server only while its Machine names no other. What says so
// may be wrong, so that the sweep wipes nothing for it.
func TestTheSecondServerOfAMachinesNameIsCountedAndNotReclaimed(t *testing.T) {
	ours := claimedPrefix + "m-1"
	for by, there := range elsewhere() {
		t.Run(by, func(t *testing.T) {
			owners := host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine(ours, there)})
			for name, c := range map[string]struct {
				host *host.Host
				want host.StrayKind
			}{
				"nobody's":             {pooled(named(ours)), host.ForeignStray},
				"claimed as before":    {pooled(stray), host.StrandedStray},
				"in the pool":          {pooled(), ""},
				"going at its floor":   {pooled(named(ours), scheduled), ""},
				"detached":             {pooled(named(ours), func(h *host.Host) { h.Spec.Record.DetachedAt = at(1) }), host.ForeignStray},
				"the Machine's second": {pooled(named(ours), func(h *host.Host) { h.Spec.ServerID = otherID; h.Name = host.ObjectName(zone, otherID) }), ""},
			} {
				if got, why := host.Stray(c.host, owners, naming()); got != c.want || why == "" {
					t.Errorf("%s: got %q (%s), want %q", name, got, why, c.want)
				}
				in := reclaimable(func(in *host.ReclaimInput) { in.Host, in.Owners = c.host, owners })
				if refusal := host.MayReclaim(in); c.want != "" && refusal.Reason != host.RefusedForeign {
					t.Errorf("%s: the sweep says %+v", name, refusal)
				}
			}
		})
	}
}

func TestRequirement001_WhatIsAStray(t *testing.T) {
	nobody := host.OwnersOf(nil)
	ours := claimedPrefix + "m-1"
	for _, c := range []struct {
		name   string
		host   *host.Host
		owners host.Owners
		want   host.StrayKind
	}{
		{"claimed, its Machine gone", pooled(stray), nobody, host.StrandedStray},
		{"a claim's name without a claim", pooled(named(ours)), nobody, host.StrandedStray},
		{"a vendor's name", pooled(named("apple-silicon-romantic-1")), nobody, host.ForeignStray},
		{"another cluster's name", pooled(named("acme-m-1")), nobody, host.ForeignStray},
		{"in the pool", pooled(), nobody, ""},
		{"in the pool by our own name of it", pooled(named(prefix + serverID)), nobody, ""},
		{"in another cluster's pool", pooled(named("theirs-" + serverID)), nobody, host.ForeignStray},
		{"in another cluster's pool, which begins as claimed names do", pooled(named(claimedPrefix + "pool-" + serverID)), nobody, host.ForeignStray},
		{"being adopted by the first system", pooled(named("tuist-claim-pending-5")), nobody, ""},
		{"of a Machine, by name alone", pooled(named(ours)), host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine(ours, nil)}), ""},
		{"of a Machine, by name, beside one that has another server", pooled(named(ours)), host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{
			machine(ours, elsewhere()["spec.providerID"]), machine(ours, nil),
		}), ""},
		{"of a Machine, by name, that waits for its order", pooled(named(ours)), host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine(ours, func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Spec.HostRef = &infrav1.HostReference{Name: "order-m-1", ClaimToken: "t-1"}
		})}), ""},
		{"of a Machine, by name, that means the host by another claim", pooled(stray), host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine(ours, means("t-9"))}), ""},
		{"of a Machine, by server id", pooled(stray), host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine("x", func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Status.ServerID = serverID
		})}), ""},
		{"of a Machine, by providerID", pooled(stray), host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine("x", func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Spec.ProviderID = host.ProviderID(zone, serverID)
		})}), ""},
		{"of a Machine, by its claim", pooled(stray, named("spare-1")), host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine(ours, means("t-1"))}), ""},
		{"meant by a Machine, and claimed for another", pooled(stray), host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine("x", means("t-1"))}), host.StrandedStray},
		{"meant by a Machine, and nobody's", pooled(named("spare-1")), host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine("x", means("t-9"))}), ""},
		{"of another Machine", pooled(stray), host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine("x", nil)}), host.StrandedStray},
		{"being released", pooled(released), nobody, ""},
		{"being adopted", pooled(named("x"), func(h *host.Host) { h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: prefix} }), nobody, ""},
		{"detached on purpose", pooled(named(ours), func(h *host.Host) { h.Spec.Record.DetachedAt = at(1) }), nobody, host.ForeignStray},
		{"detached, and deleted at the vendor's before its floor", pooled(named(ours), func(h *host.Host) {
			h.Spec.Record.DetachedAt, h.Status.Server.DeletionScheduled = at(1), true
		}), nobody, ""},
		{"claimed, its Machine gone, and deleted by a person before its floor", pooled(stray, func(h *host.Host) { h.Status.Server.DeletionScheduled = true }), nobody, host.StrandedStray},
		{"moved away", pooled(stray, func(h *host.Host) { h.Spec.Record.HandedOverAt = at(1) }), nobody, ""},
		{"never seen", pooled(stray, named("")), nobody, ""},
		{"an order", &host.Host{Spec: infrav1.ScalewayAppleSiliconHostSpec{Order: &infrav1.OrderRequest{Name: ours}}}, nobody, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, why := host.Stray(c.host, c.owners, naming()); got != c.want || why == "" {
				t.Errorf("got %q (%s), want %q", got, why, c.want)
			}
		})
	}
}

func TestWithoutAPrefixOfClaimedNamesANameTellsNothing(t *testing.T) {
	h := pooled(named(claimedPrefix + "m-1"))
	if kind, _ := host.Stray(h, host.OwnersOf(nil), host.Naming{Pools: []string{prefix}}); kind != host.ForeignStray {
		t.Errorf("got %q", kind)
	}
}

// reclaimable is an input that no rule refuses, with changes.
func reclaimable(changes ...func(*host.ReclaimInput)) host.ReclaimInput {
	in := host.ReclaimInput{
		Host: pooled(stray), Owners: host.OwnersOf(nil), Naming: naming(), PoolPrefix: prefix,
		Sighting: host.Sighting{Sweeps: 2, Since: noon().Add(-10 * time.Minute)},
		Clusters: []host.ClusterState{{Namespace: "fleet", Name: "c"}}, Now: noon(),
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

func TestRequirement001_EachRuleRefusesByItself(t *testing.T) {
	onHost := func(change func(*host.Host)) func(*host.ReclaimInput) {
		return func(in *host.ReclaimInput) { change(in.Host) }
	}
	onCluster := func(change func(*host.ClusterState)) func(*host.ReclaimInput) {
		return func(in *host.ReclaimInput) { change(&in.Clusters[0]) }
	}
	later, before := metav1.NewTime(noon().Add(time.Hour)), metav1.NewTime(noon().Add(-time.Hour))
	for _, c := range []struct {
		name   string
		change func(*host.ReclaimInput)
		want   string
	}{
		{"nothing is wrong", func(*host.ReclaimInput) {}, ""},
		{"no claim, but a claimed name", onHost(func(h *host.Host) { h.Spec.ClaimRef = nil }), ""},
		{"report only", func(in *host.ReclaimInput) { in.Naming.Claimed = "" }, host.RefusedReportOnly},
		{"a live Machine of that name", func(in *host.ReclaimInput) {
			in.Owners = host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine(claimedPrefix+"m-1", nil)})
		}, host.RefusedNotStray},
		{"a live Machine with that server", func(in *host.ReclaimInput) {
			in.Owners = host.OwnersOf([]infrav1.ScalewayAppleSiliconMachine{machine("x", func(m *infrav1.ScalewayAppleSiliconMachine) { m.Status.ServerID = serverID })})
		}, host.RefusedNotStray},
		{"released already", onHost(released), host.RefusedNotStray},
		{"handed over", onHost(func(h *host.Host) { h.Spec.Record.HandedOverAt = at(0) }), host.RefusedNotStray},
		{"another name", onHost(named("acme-m-1")), host.RefusedForeign},
		{"a name in the pool under a claim", onHost(named(prefix + "1")), host.RefusedForeign},
		{"a name in another cluster's pool under a claim", onHost(named(claimedPrefix + "pool-" + serverID)), host.RefusedForeign},
		{"a claimed name that a pool's prefix matches", func(in *host.ReclaimInput) { in.Naming.Pools = []string{"tuist-tuist-m-"} }, host.RefusedForeign},
		{"being adopted by the first system", func(in *host.ReclaimInput) {
			in.Host.Spec.ClaimRef = nil
			in.Naming.Claimed, in.Host.Status.Server.Name = "tuist-", "tuist-claim-pending-1"
		}, host.RefusedNotStray},
		{"no pool", func(in *host.ReclaimInput) { in.PoolPrefix = "" }, host.RefusedNoPool},
		{"being removed", onHost(func(h *host.Host) { h.DeletionTimestamp = &later }), host.RefusedUncertain},
		{"missing", onHost(func(h *host.Host) { h.Status.MissingSince = at(0) }), host.RefusedUncertain},
		{"gone", onHost(func(h *host.Host) { h.Status.Phase = infrav1.HostGone }), host.RefusedUncertain},
		{"scheduled for deletion", onHost(func(h *host.Host) { h.Status.Server.DeletionScheduled = true }), host.RefusedUncertain},
		{"not delivered", onHost(func(h *host.Host) { h.Status.Server.Delivered = false }), host.RefusedUncertain},
		{"named by others under the claim", onHost(condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonChangedByOther)), host.RefusedUncertain},
		{"in maintenance", onHost(func(h *host.Host) { h.Spec.Maintenance = &infrav1.Maintenance{} }), host.RefusedKeptBack},
		{"quarantined", onHost(func(h *host.Host) { h.Spec.Quarantine = &infrav1.Quarantine{Reason: "x", Until: &later} }), host.RefusedKeptBack},
		{"quarantined for good", onHost(func(h *host.Host) { h.Spec.Quarantine = &infrav1.Quarantine{Reason: "x"} }), host.RefusedKeptBack},
		{"quarantined once", onHost(func(h *host.Host) { h.Spec.Quarantine = &infrav1.Quarantine{Reason: "x", Until: &before} }), ""},
		{"detached", onHost(func(h *host.Host) { h.Spec.ClaimRef, h.Spec.Record.DetachedAt = nil, at(0) }), host.RefusedKeptBack},
		{"seen once", func(in *host.ReclaimInput) { in.Sighting.Sweeps = 1 }, host.RefusedTooSoon},
		{"seen for a short time", func(in *host.ReclaimInput) { in.Sighting.Since = noon().Add(-10*time.Minute + time.Second) }, host.RefusedTooSoon},
		{"no Cluster", func(in *host.ReclaimInput) { in.Clusters = nil }, host.RefusedCluster},
		{"the Cluster moved away", onCluster(func(c *host.ClusterState) { c.Missing = true }), host.RefusedCluster},
		{"the Cluster is paused", onCluster(func(c *host.ClusterState) { c.Paused = true }), host.RefusedCluster},
		{"the Cluster is going", onCluster(func(c *host.ClusterState) { c.Deleting = true }), host.RefusedCluster},
		{"one of two Clusters is paused", func(in *host.ReclaimInput) {
			in.Clusters = append(in.Clusters, host.ClusterState{Name: "d", Paused: true})
		}, host.RefusedCluster},
		{"a Ready Node", func(in *host.ReclaimInput) { in.NodeReady = true }, host.RefusedNodeReady},
		{"the storm guard", func(in *host.ReclaimInput) { in.Block.Reason = infrav1.ReasonStormGuard }, host.RefusedDestruction},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := host.MayReclaim(reclaimable(c.change)); got.Reason != c.want {
				t.Errorf("got %+v, want %q", got, c.want)
			}
		})
	}
}

func TestReclaimRecordsALicensedRelease(t *testing.T) {
	for name, in := range map[string]host.ReclaimInput{
		"claimed": reclaimable(), "no claim": reclaimable(func(in *host.ReclaimInput) {
			in.Host = pooled(named(claimedPrefix + "m-2"))
		}),
	} {
		t.Run(name, func(t *testing.T) {
			in.Host.Status.Server.OSFamily = "sequoia"
			before := in.Host.DeepCopy()
			host.Reclaim(in, "fresh")
			h := in.Host
			if !host.WipeAllowed(h) || h.Spec.Release.Origin != infrav1.OriginReclaim || h.Spec.Release.PoolPrefix != prefix ||
				h.Spec.Release.OSFamily != "sequoia" ||
				h.Spec.ClaimRef.Name != h.Status.Server.Name || h.Spec.Record.DisturbedAt == nil {
				t.Errorf("got %+v", h.Spec)
			}
			if claim := before.Spec.ClaimRef; (claim == nil) != (h.Spec.ClaimRef.Token == "fresh") {
				t.Errorf("token %q, claimed before: %v", h.Spec.ClaimRef.Token, claim != nil)
			}
			if host.Clean(h) {
				t.Error("clean without a wipe")
			}
		})
	}
}
