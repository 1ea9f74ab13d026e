package host

import (
	"slices"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// mostRegistered is the API's limit for each list of a RegistrationRecord: two
// profiles' fill it. The oldest are forgotten first.
const mostRegistered = 128

// NoteRegistration adds what a Mac is about to be told to register its Node with. It
// reports whether that was not known yet.
func NoteRegistration(h *Host, told infrav1.RegistrationRecord) bool {
	record := infrav1.RegistrationRecord{}
	if known := h.Spec.Record.Registration; known != nil {
		record = *known
	}
	labels, moreLabels := addMissing(record.Labels, told.Labels)
	taints, moreTaints := addMissing(record.Taints, told.Taints)
	if !moreLabels && !moreTaints {
		return false
	}
	h.Spec.Record.Registration = &infrav1.RegistrationRecord{Labels: labels, Taints: taints}
	return true
}

func addMissing(known, told []string) (all []string, more bool) {
	all = slices.Clone(known)
	for _, one := range told {
		if !slices.Contains(known, one) {
			all, more = append(all, one), true
		}
	}
	return all[max(0, len(all)-mostRegistered):], more
}

// Registered is what the Mac of a claim was told to register its Node with; nothing
// where the host does not carry the claim that the Machine means.
func Registered(h *Host, m *infrav1.ScalewayAppleSiliconMachine) infrav1.RegistrationRecord {
	if h.Spec.Record.Registration == nil || !MeansClaim(h, m) {
		return infrav1.RegistrationRecord{}
	}
	return *h.Spec.Record.Registration
}
