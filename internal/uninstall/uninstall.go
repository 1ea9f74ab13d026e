// Package uninstall holds what must be true of a cluster before its manager goes: no
// Mac is anybody's, and no wipe is under way that nobody else would watch to its end.
package uninstall

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

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

// Found is what is there: core's Machines and ours of the manager's namespace, and all hosts.
type Found struct {
	// Namespace is the manager's.
	Namespace    string
	CoreMachines []clusterv1.Machine
	Machines     []infrav1.ScalewayAppleSiliconMachine
	Hosts        []infrav1.ScalewayAppleSiliconHost
}

// KindGone reports that the answer to a list says that its kind is not there any more: a CRD
// goes only after all its objects, so that none of them is left.
func KindGone(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// Look judges what is there.
func Look(f Found, now time.Time) Left {
	var left Left
	f.lookAtMachines(&left)
	for i := range f.Hosts {
		f.lookAtHost(&left, &f.Hosts[i], now)
	}
	return left
}

func (f Found) lookAtMachines(left *Left) {
	var stay, leave []string
	for i := range f.Machines {
		m := &f.Machines[i]
		name := m.Namespace + "/" + m.Name
		if f.leaves(m) {
			leave = append(leave, name)
		} else {
			stay = append(stay, name)
		}
	}
	if len(stay) > 0 {
		left.Stays = append(left.Stays, fmt.Sprintf(
			"%s not being deleted, and only the manager gives its Mac back: scale every fleet to 0 first", some(len(stay), "Machine", stay[0])))
	}
	if len(leave) > 0 {
		left.Passes = append(left.Passes, some(len(leave), "Machine", leave[0])+" still being drained and released; macfleet explain machine "+leave[0]+" says what it waits for")
	}
}

// leaves reports that a Machine is being deleted. Core deletes ours only when it has drained
// the Node of its own.
func (f Found) leaves(m *infrav1.ScalewayAppleSiliconMachine) bool {
	if !m.DeletionTimestamp.IsZero() {
		return true
	}
	return slices.ContainsFunc(f.CoreMachines, func(core clusterv1.Machine) bool {
		owns := func(owner metav1.OwnerReference) bool { return owner.UID == core.UID }
		return !core.DeletionTimestamp.IsZero() && slices.ContainsFunc(m.OwnerReferences, owns)
	})
}

// some is a number of things, and the first of them.
func some(n int, kind, first string) string {
	if n == 1 {
		return fmt.Sprintf("%s %s is", kind, first)
	}
	return fmt.Sprintf("%d %ss, such as %s, are", n, kind, first)
}

// lookAtHost goes by the record, which is written before the phase that shows it.
func (f Found) lookAtHost(left *Left, h *infrav1.ScalewayAppleSiliconHost, now time.Time) {
	switch release := h.Spec.Release; {
	case host.ClaimedOutside(h, f.Namespace): // its manager orders and releases it: its Machines were not listed here
	case h.Spec.Order != nil:
		left.Stays = append(left.Stays, fmt.Sprintf("host %s is on order, and is nobody's when it comes: delete it, or wait and delete its server", h.Name))
	case h.Status.Server.DeletionScheduled: // the vendor deletes it by itself
	case release == nil && f.stranded(h):
		left.Stays = append(left.Stays, fmt.Sprintf(
			"host %s is claimed, and no Machine holds the claim, so that it is not wiped and bills on: macfleet host release %s", h.Name, h.Name))
	case release == nil:
	case h.Status.MissingSince != nil && now.Sub(h.Status.MissingSince.Time) > host.GoneAfterSuspicious:
		left.Stays = append(left.Stays, fmt.Sprintf("host %s is released, and the vendor's lists lack its server for long: if its console has none either, delete the host", h.Name))
	case host.ReleaseHeld(h):
		left.Stays = append(left.Stays, fmt.Sprintf(
			"host %s is released, and somebody named its server %q, so that it is not wiped: macfleet explain host %s", h.Name, h.Status.Server.Name, h.Name))
	case host.WipeAbandoned(h, now):
		left.Stays = append(left.Stays, fmt.Sprintf("host %s could not be wiped, and waits for a person: macfleet explain host %s", h.Name, h.Name))
	case h.Status.Phase == infrav1.HostRetiring:
		left.Stays = append(left.Stays, fmt.Sprintf(
			"host %s is wiped and waits for the vendor to let it go%s; without the manager it bills on until you delete server %s yourself",
			h.Name, when(h), h.Spec.ServerID))
	default:
		left.Passes = append(left.Passes, fmt.Sprintf("host %s is being released and wiped, which the manager watches to its end: some 20 minutes; when it takes longer, macfleet explain host %s", h.Name, h.Name))
	}
}

// stranded reports that a host without a release has a claim that no Machine holds.
func (f Found) stranded(h *infrav1.ScalewayAppleSiliconHost) bool {
	if h.Spec.ClaimRef == nil || h.Spec.Record.HandedOverAt != nil || h.Status.Phase == infrav1.HostGone {
		return false
	}
	return !slices.ContainsFunc(f.Machines, func(m infrav1.ScalewayAppleSiliconMachine) bool { return host.MeansClaim(h, &m) })
}

func when(h *infrav1.ScalewayAppleSiliconHost) string {
	if at := h.Status.Server.DeletableAt; at != nil {
		return ", at " + at.UTC().Format(time.RFC3339)
	}
	return ""
}
