package timeline

import (
	"fmt"
	"strings"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// hostRecord is what a Host remembers of its Mac.
func hostRecord(h *infrav1.ScalewayAppleSiliconHost) []Entry {
	r := h.Spec.Record
	entries := []Entry{
		record("host", "it was first seen", &h.CreationTimestamp, ""),
		micro("host", "it was claimed: its disk counts as used", r.Wipe.RequiredSince, ""),
		micro("host", "its wipe was asked for", r.Wipe.RequestedAt, fmt.Sprintf("the %d. of this Mac", r.Wipe.Generation)),
		micro("host", "the vendor showed the reinstall", r.Wipe.StartedAt, ""),
		micro("host", "its wipe was seen to end", r.Wipe.ObservedAt, ""),
		micro("host", "it was given back to the vendor", r.Wipe.ReturnedAt, ""),
		micro("host", "it was let go without a wipe", r.DetachedAt, ""),
		micro("host", "it went to another management cluster", r.HandedOverAt, ""),
		micro("host", "recovery disturbed it", r.DisturbedAt, ""),
		record("host", "a bootstrap of this claim failed for the first time", r.Bootstrap.FirstFailedAt, ""),
		micro("host", "its server bore its owner's name", h.Status.ShownSince, h.Status.Server.Name),
		micro("host", "a list lacked its server", h.Status.MissingSince, ""),
	}
	if release := h.Spec.Release; release != nil {
		entries = append(entries, micro("host", "its release was recorded", &release.RequestedAt, strings.TrimSuffix(fmt.Sprintf("%s, by %s", release.Policy, release.Origin), ", by ")))
	}
	if order := h.Spec.Order; order != nil {
		entries = append(entries, micro("host", "its server was ordered", order.AttemptedAt, order.Type+" in "+order.Zone))
	}
	if reboot := h.Status.LastReboot; reboot.ID != "" {
		entries = append(entries, micro("host", "the vendor took a reboot", &reboot.At, reboot.ID))
	}
	for _, p := range r.PasswordAttempts {
		entries = append(entries, micro("host", "a password was tried", &p.At, ""))
	}
	for _, f := range h.Spec.Failures.Recent {
		entries = append(entries, record("host", "a claim came to nothing", &f.Time, f.Reason))
	}
	return entries
}

// machineRecord is what a Machine's status remembers.
func machineRecord(m *infrav1.ScalewayAppleSiliconMachine) []Entry {
	update := m.Status.Update
	drift := "as it should be"
	if steps := m.Status.Drift.Steps; len(steps) > 0 {
		drift = "changed since: " + strings.Join(steps, ", ")
	}
	return []Entry{
		record("machine", "it was made", &m.CreationTimestamp, ""),
		record("machine", "its deletion was asked for", m.DeletionTimestamp, ""),
		record("machine", "the Mac proved its revision", update.ProvedAt, m.Status.Applied.Revision),
		record("machine", "a change failed", update.LastFailedAt, fmt.Sprintf("revision %s, for the %d. time", update.Revision, update.Failures)),
		record("machine", "a change was put off", update.HeldAt, update.Revision),
		record("machine", "a change failed as a network may, and is tried once more", update.RetriedAt, update.Revision),
		record("machine", "converge looked what had changed on the Mac", m.Status.Drift.CheckedAt, drift),
	}
}
