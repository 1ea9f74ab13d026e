package machine

import (
	"fmt"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// Copied says whose the host is that the Machine's hostRef was copied for.
func Copied(m *infrav1.ScalewayAppleSiliconMachine, h *host.Host) Finding {
	way := "delete it, or remove spec.hostRef to have it choose a host of its own"
	if m.Spec.ProviderID != "" {
		// Core finds the owner's Node by this providerID when the copy's Machine goes.
		way = "delete it; where a Machine owns it, pause that first, or Cluster API drains and deletes the other's Node"
	}
	owner := h.Spec.ClaimRef
	return False(infrav1.ReasonClaimConflict, "host %s is claimed for Machine %s/%s, whose hostRef this object copies: it claims nothing, and its deletion releases nothing; %s", h.Name, owner.Namespace, owner.Name, way)
}

// OtherOwner says how it shows that a host is not the Machine's.
func OtherOwner(h *host.Host, m *infrav1.ScalewayAppleSiliconMachine) string {
	name := h.Status.Server.Name
	switch ref := h.Spec.ClaimRef; {
	case ref == nil:
		return fmt.Sprintf("nobody has claimed it, and its server's name is %q: it was freed", name)
	case !host.MeansClaim(h, m):
		return fmt.Sprintf("it is claimed for Machine %s/%s, and its server's name is %q", ref.Namespace, ref.Name, name)
	case !host.ChangedByOther(h) && host.Going(h):
		return "the vendor is to delete its server, which this Machine was not given yet; another is claimed"
	}
	return fmt.Sprintf("its server's name is now %q", name)
}
