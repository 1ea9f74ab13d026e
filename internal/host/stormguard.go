package host

import (
	"fmt"
	"strings"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// What recovery and the sweep may disturb of one zone by themselves.
const (
	// stormWindow is how long a disturbed host counts.
	stormWindow = time.Hour
	// stormPart of a zone's hosts, at least one, may be disturbed in the window: a fifth.
	stormPart = 5
)

// Block says why nothing destructive may be begun; its zero value: it may.
type Block struct{ Reason, Message string }

const wipeHeldBack = "the wipe is held back"

// HoldsWipe is what a Machine says of the wipe of its Mac that the block holds back.
func (b Block) HoldsWipe() string {
	return fmt.Sprintf("%s (%s): %s", wipeHeldBack, b.Reason, b.Message)
}

// WipeHeldBack reports that a Machine says so: recovery goes on by itself when the block ends.
func WipeHeldBack(message string) bool { return strings.Contains(message, "; "+wipeHeldBack+" (") }

// DestructionBlocked judges a zone from all its hosts and its last list. It binds
// what recovery, remediation and the sweep begin, reboots and wipes alike, never the
// deletion of a Machine: a storm of failures must not become a storm of wipes.
func DestructionBlocked(zone string, hosts []infrav1.ScalewayAppleSiliconHost, report ZoneReport, listed bool, now time.Time) Block {
	switch {
	case !listed, report.Err != nil, report.Failing:
		message := "the vendor does not answer well enough in zone " + zone
		if why := report.Unreadable(); why != "" {
			message += ": " + why
		}
		return Block{infrav1.ReasonVendorFailing, message}
	case report.Suspicious:
		return Block{infrav1.ReasonInventorySuspicious, fmt.Sprintf("%s from the list of zone %s", report.Vanished(), zone)}
	}
	all, disturbed := 0, 0
	for i := range hosts {
		if hosts[i].Spec.Zone != zone {
			continue
		}
		all++
		at := hosts[i].Spec.Record.DisturbedAt
		if at != nil && at.After(now.Add(-stormWindow)) {
			disturbed++
		}
	}
	if allowed := max(1, all/stormPart); disturbed >= allowed {
		return Block{infrav1.ReasonStormGuard, fmt.Sprintf("%d of %d hosts in zone %s were wiped or rebooted by recovery within the hour; %d may be. No other is begun; a host that is counted here still goes on to the next step of its own recovery", disturbed, all, zone, allowed)}
	}
	return Block{}
}

// RecordDisruption notes in record.disturbedAt that something destructive is begun on our own account.
func RecordDisruption(h *Host, now time.Time) { h.Spec.Record.DisturbedAt = stamp(now) }

// BootstrapRebootID names the one reboot of a claim's recovery.
func BootstrapRebootID(token string) string { return "bootstrap-" + token }
