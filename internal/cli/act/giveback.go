package act

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// idle are the phases of hosts of the pool that no Machine has, and that can be given back.
var idle = []infrav1.HostPhase{infrav1.HostAvailable, infrav1.HostQuarantined, infrav1.HostDirty}

// giveBack gives a host of the pool that nobody has back to the vendor: claimed by nobody
// and released in one write, so that no Machine has it meanwhile.
func (w Wipe) giveBack(m Mac) (Plan, error) {
	h := m.Host
	switch {
	case w.Pool != "" || w.OS != "":
		return Plan{}, fmt.Errorf("host %s goes back to the vendor with --terminate: leave --pool and --os out", h.Name)
	case h.Spec.Order != nil || !slices.Contains(idle, h.Status.Phase) || !host.InPool(h.Status.Server.Name, h.Spec.ServerID, m.Pools...):
		return Plan{}, fmt.Errorf("host %s is %s, and no Mac of the pool: delete the server in the vendor's console", h.Name, h.Status.Phase)
	case h.Spec.Maintenance != nil:
		return Plan{}, fmt.Errorf("host %s is in maintenance (%s): end that first: macfleet host maintenance %s --end", h.Name, h.Spec.Maintenance.Reason, h.Name)
	}
	var p Plan
	p.say("host %s, which no Machine has, is given back to the vendor %s: the pool has one Mac less", h.Name, onceWiped)
	if floor := h.Status.Server.DeletableAt; floor != nil && floor.After(w.Now) {
		p.say("it is billed until %s all the same: that is its billing floor", floor.UTC().Format(time.RFC3339))
	}
	patch, err := w.giveBackPatch(h)
	if err != nil {
		return Plan{}, err
	}
	p.patch(h, patch)
	return p, nil
}

// giveBackPatch is what giving back changes in a host. With the finalizer in the same write, who
// deletes the Host before a manager has looked at it loses no release.
func (w Wipe) giveBackPatch(h *infrav1.ScalewayAppleSiliconHost) (map[string]any, error) {
	changed := h.DeepCopy()
	host.GiveBack(changed, w.Token, w.Now)
	controllerutil.AddFinalizer(changed, infrav1.HostFinalizer)
	diff, err := client.MergeFrom(h).Data(changed)
	if err != nil {
		return nil, fmt.Errorf("comparing the host: %w", err)
	}
	var patch map[string]any
	if err := json.Unmarshal(diff, &patch); err != nil {
		return nil, fmt.Errorf("comparing the host: %w", err)
	}
	return patch, nil
}
