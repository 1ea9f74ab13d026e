package host

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

const (
	legacyName = "tuist-tuist-runners-fleet-mndbc-k6kwt"
	legacyID   = "33333333-3333-4333-8333-333333333333"
	legacyZone = "fr-par-1"
)

// legacyMachine is as the first system leaves a live one.
func legacyMachine() *infrav1.ScalewayAppleSiliconMachine {
	m := &infrav1.ScalewayAppleSiliconMachine{}
	m.Namespace, m.Name = "tuist", legacyName
	m.Finalizers = []string{"scalewayapplesilicon.cluster.x-k8s.io/finalizer"}
	m.Spec.ProviderID = "scw-applesilicon://" + legacyZone + "/" + legacyID
	m.Status.ServerID = legacyID
	return m
}

// legacyHost is as the inventory finds its server.
func legacyHost() *Host {
	h := &Host{}
	h.Name = ObjectName(legacyZone, legacyID)
	h.Spec.ServerID, h.Spec.Zone = legacyID, legacyZone
	h.Status.Server = infrav1.ServerStatus{Name: legacyName, Status: "ready", Delivered: true}
	return h
}

func TestLegacyServer(t *testing.T) {
	byStatus := func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.ProviderID = "" }
	for name, c := range map[string]struct {
		change func(*infrav1.ScalewayAppleSiliconMachine)
		zone   string
		is     bool
	}{
		"providerID":                  {func(*infrav1.ScalewayAppleSiliconMachine) {}, legacyZone, true},
		"providerID alone":            {func(m *infrav1.ScalewayAppleSiliconMachine) { m.Status.ServerID, m.Finalizers = "", nil }, legacyZone, true},
		"status and finalizer":        {byStatus, "", true},
		"status without finalizer":    {func(m *infrav1.ScalewayAppleSiliconMachine) { byStatus(m); m.Finalizers = nil }, "", false},
		"status beside our hostName":  {func(m *infrav1.ScalewayAppleSiliconMachine) { byStatus(m); m.Status.HostName = "h" }, "", false},
		"status that is no server id": {func(m *infrav1.ScalewayAppleSiliconMachine) { byStatus(m); m.Status.ServerID = "../../x" }, "", false},
		"nothing":                     {func(m *infrav1.ScalewayAppleSiliconMachine) { byStatus(m); m.Status.ServerID = "" }, "", false},
		"ours, with a hostRef":        {func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = &infrav1.HostReference{Name: "h"} }, "", false},
		"providerID of no server": {func(m *infrav1.ScalewayAppleSiliconMachine) {
			byStatus(m)
			m.Spec.ProviderID, m.Status.ServerID = "scw-applesilicon://fr-par-1/mac", ""
		}, "", false},
		"providerID of another kind of host": {func(m *infrav1.ScalewayAppleSiliconMachine) {
			byStatus(m)
			m.Spec.ProviderID, m.Status.ServerID = "rack-applesilicon://berlin/C02", ""
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := legacyMachine()
			c.change(m)
			got, is := LegacyServer(m)
			if is != c.is || got.Zone != c.zone || is != (got.ServerID == legacyID) {
				t.Errorf("got %+v, %t", got, is)
			}
		})
	}
}

func TestNextLegacy(t *testing.T) {
	now := metav1.NewMicroTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		change func(*Host)
		others []infrav1.ScalewayAppleSiliconMachine
		step   LegacyStep
		why    string
	}{
		"its own":                       {step: LegacyClaim},
		"busy at the vendor":            {change: func(h *Host) { h.Status.Server.Status = "rebooting" }, step: LegacyClaim},
		"no such host":                  {change: func(h *Host) { h.Spec.ServerID = "44444444-4444-4444-8444-444444444444" }, step: LegacyMissing, why: "is not in the inventory of zone fr-par-1"},
		"the id in another zone":        {change: func(h *Host) { h.Spec.Zone = "fr-par-3" }, step: LegacyMissing, why: "is not in the inventory"},
		"not read yet":                  {change: func(h *Host) { h.Status.Server.Name = "" }, step: LegacyWait, why: "was not read yet"},
		"claimed":                       {change: func(h *Host) { h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "a", Name: "b", Token: "t"} }, step: LegacyOthers, why: "claimed for Machine a/b"},
		"released by the first system":  {change: func(h *Host) { h.Status.Server.Name = "tuist-pool-9f" }, step: LegacyRenamed, why: "released already"},
		"released by this one":          {change: func(h *Host) { h.Status.Server.Name = "old-" + legacyID }, step: LegacyRenamed, why: "released already"},
		"named after somebody else":     {change: func(h *Host) { h.Status.Server.Name = "other" }, step: LegacyRenamed, why: `named "other"`},
		"detached":                      {change: func(h *Host) { h.Spec.Record.DetachedAt = &now }, step: LegacyOthers, why: "let go as it was"},
		"handed over":                   {change: func(h *Host) { h.Spec.Record.HandedOverAt = &now }, step: LegacyOthers, why: "another management cluster"},
		"being removed":                 {change: func(h *Host) { h.DeletionTimestamp = &metav1.Time{Time: now.Time} }, step: LegacyWait, why: "being removed"},
		"in maintenance":                {change: func(h *Host) { h.Spec.Maintenance = &infrav1.Maintenance{Reason: "fan"} }, step: LegacyWait, why: "maintenance: fan"},
		"quarantined":                   {change: func(h *Host) { h.Spec.Quarantine = &infrav1.Quarantine{Reason: "disk"} }, step: LegacyWait, why: "quarantined: disk"},
		"missing from the list":         {change: func(h *Host) { h.Status.MissingSince = &now }, step: LegacyWait, why: "missing from the vendor's list"},
		"being adopted":                 {change: func(h *Host) { h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: "p--"} }, step: LegacyWait, why: "spec.adopt"},
		"a namesake elsewhere":          {others: []infrav1.ScalewayAppleSiliconMachine{*inNamespace("other")}, step: LegacyWait, why: "Machine other/" + legacyName},
		"one of another name, same id":  {others: []infrav1.ScalewayAppleSiliconMachine{*named("another")}, step: LegacyClaim},
		"itself in the list":            {others: []infrav1.ScalewayAppleSiliconMachine{*legacyMachine()}, step: LegacyClaim},
		"a namesake with another's Mac": {others: []infrav1.ScalewayAppleSiliconMachine{*ours("other")}, step: LegacyClaim},
	} {
		t.Run(name, func(t *testing.T) {
			m, h := legacyMachine(), legacyHost()
			if c.change != nil {
				c.change(h)
			}
			legacy, _ := LegacyServer(m)
			step, found, why := NextLegacy(m, legacy, []Host{{}, *h}, c.others, "tuist-pool-")
			if step != c.step || !strings.Contains(why, c.why) || (step == LegacyClaim) != (why == "") {
				t.Errorf("step %s, why %q", step, why)
			}
			if (found == nil) != (step == LegacyMissing) {
				t.Errorf("host %v", found)
			}
		})
	}
}

func inNamespace(namespace string) *infrav1.ScalewayAppleSiliconMachine {
	m := legacyMachine()
	m.Namespace = namespace
	return m
}

func named(name string) *infrav1.ScalewayAppleSiliconMachine {
	m := legacyMachine()
	m.Name = name
	return m
}

func ours(namespace string) *infrav1.ScalewayAppleSiliconMachine {
	m := inNamespace(namespace)
	m.Spec.HostRef = &infrav1.HostReference{Name: "fr-par-1-x", ClaimToken: "t"}
	return m
}

// A crash between intent and claim: the same host is claimed, and never another.
func TestRepairOfATakeOver(t *testing.T) {
	now := metav1.NewMicroTime(time.Now())
	for name, c := range map[string]struct {
		change func(*Host)
		want   Verdict
		// provisioned is what is wanted with a providerID: MayClaimAgain says the rest.
		provisioned Verdict
	}{
		"its own":       {func(*Host) {}, ClaimAgain, ClaimAgain},
		"renamed since": {func(h *Host) { h.Status.Server.Name = "other" }, Wait, Lost},
		"in the pool":   {func(h *Host) { h.Status.Server.Name = "tuist-pool-1" }, Wait, Lost},
		"not read":      {func(h *Host) { h.Status.Server.Name = "" }, Wait, Wait},
		"maintenance":   {func(h *Host) { h.Spec.Maintenance = &infrav1.Maintenance{} }, ClaimAgain, ClaimAgain},
		"detached":      {func(h *Host) { h.Spec.Record.DetachedAt = &now }, Wait, Lost},
	} {
		for providerID, want := range map[string]Verdict{"": c.want, "scw-applesilicon://" + legacyZone + "/" + legacyID: c.provisioned} {
			t.Run(name+" "+providerID, func(t *testing.T) {
				m, h := legacyMachine(), legacyHost()
				m.Spec.ProviderID = providerID
				m.Spec.HostRef = &infrav1.HostReference{Name: h.Name, ClaimToken: "t", TakeOver: true}
				c.change(h)
				if got := Repair(m, h, "tuist-pool-"); got != want {
					t.Errorf("got %s", got)
				}
			})
		}
	}
}

func TestRecoveryLeavesATakenOverMacAlone(t *testing.T) {
	for _, class := range []FailureClass{ClassRetry, ClassReboot, ClassReinstall} {
		h := legacyHost()
		h.Spec.Record.Bootstrap.Attempts = 100
		in := RecoveryInput{Class: class, RebootAfter: 3, MaxAttempts: 8, PoolPrefix: "tuist-pool-", TakeOver: true}
		if got, why := NextRecovery(h, in); got != RecoverStay || !strings.Contains(why, "taken over") {
			t.Errorf("%s: %s, %q", class, got, why)
		}
	}
}

func TestOSFamily(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "tahoe": "tahoe", "Tahoe": "tahoe", "macos-tahoe": "tahoe", "macOS Tahoe": "tahoe",
		"macos-tahoe-26.3": "tahoe", "Sonoma": "sonoma", "macos-sequoia-15": "sequoia",
	} {
		if got := OSFamily(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
