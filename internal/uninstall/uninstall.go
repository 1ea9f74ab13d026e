// Package uninstall holds what must be true of a cluster before its manager goes: no
// Mac is anybody's, and no wipe is under way that nobody else would watch to its end.
package uninstall

import (
	"fmt"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// Left is what a manager that went now would leave behind, a line each.
type Left struct {
	// Stays does not end by itself: a person decides.
	Stays []string
	// Passes ends while the manager runs.
	Passes []string
}

// Nothing reports that the manager may go.
func (l Left) Nothing() bool { return len(l.Stays) == 0 && len(l.Passes) == 0 }

// Look judges the Machines of the manager's namespace, and all hosts.
func Look(machines []infrav1.ScalewayAppleSiliconMachine, hosts []infrav1.ScalewayAppleSiliconHost, now time.Time) Left {
	var left Left
	lookAtMachines(&left, machines)
	for i := range hosts {
		lookAtHost(&left, &hosts[i], now)
	}
	return left
}

func lookAtMachines(left *Left, machines []infrav1.ScalewayAppleSiliconMachine) {
	var stay, leave []string
	for _, m := range machines {
		name := m.Namespace + "/" + m.Name
		if m.DeletionTimestamp.IsZero() {
			stay = append(stay, name)
		} else {
			leave = append(leave, name)
		}
	}
	if len(stay) > 0 {
		left.Stays = append(left.Stays, fmt.Sprintf(
			"%s not being deleted, and only the manager gives its Mac back: scale every fleet to 0 first", some(len(stay), "Machine", stay[0])))
	}
	if len(leave) > 0 {
		left.Passes = append(left.Passes, some(len(leave), "Machine", leave[0])+" still being drained and released")
	}
}

// some is a number of things, and the first of them.
func some(n int, kind, first string) string {
	if n == 1 {
		return fmt.Sprintf("%s %s is", kind, first)
	}
	return fmt.Sprintf("%d %ss, such as %s, are", n, kind, first)
}

// lookAtHost goes by the record, which is written before the phase that shows it.
func lookAtHost(left *Left, h *infrav1.ScalewayAppleSiliconHost, now time.Time) {
	switch release := h.Spec.Release; {
	case h.Spec.Order != nil:
		left.Stays = append(left.Stays, fmt.Sprintf("host %s is on order, and is nobody's when it comes: delete it, or wait and delete its server", h.Name))
	case release == nil, h.Status.Server.DeletionScheduled: // the vendor deletes it by itself
	case host.WipeAbandoned(h, now):
		left.Stays = append(left.Stays, fmt.Sprintf("host %s could not be wiped, and waits for a person: macfleet explain host %s", h.Name, h.Name))
	case h.Status.Phase == infrav1.HostRetiring:
		left.Stays = append(left.Stays, fmt.Sprintf(
			"host %s is wiped and waits for the vendor to let it go%s; without the manager it bills on until you delete server %s yourself",
			h.Name, when(h), h.Spec.ServerID))
	default:
		left.Passes = append(left.Passes, fmt.Sprintf("host %s is being released and wiped, which the manager watches to its end: some 20 minutes", h.Name))
	}
}

func when(h *infrav1.ScalewayAppleSiliconHost) string {
	if at := h.Status.Server.DeletableAt; at != nil {
		return ", at " + at.UTC().Format(time.RFC3339)
	}
	return ""
}
