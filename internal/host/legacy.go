package host

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// serverIDForm is that of the vendor's server ids.
var serverIDForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Legacy is the server of a Machine that the first system made: it wrote which
// server that is, and no hostRef.
type Legacy struct {
	ServerID string
	// Zone of the providerID; empty where only the status tells of the server.
	Zone string
}

// LegacyServer reads a Machine of the first system. Its providerID counts alone;
// status.serverID, which anybody may lose or forge, only with the finalizer and
// without the status.hostName that this system writes beside it. Whether the
// server is the Machine's is NextLegacy's to say.
func LegacyServer(m *infrav1.ScalewayAppleSiliconMachine) (Legacy, bool) {
	if m.Spec.HostRef != nil {
		return Legacy{}, false
	}
	if zone, id, is := cutProviderID(m.Spec.ProviderID); is {
		return Legacy{ServerID: id, Zone: zone}, true
	}
	id := m.Status.ServerID
	if m.Status.HostName != "" || !slices.Contains(m.Finalizers, infrav1.MachineFinalizer) || !serverIDForm.MatchString(id) {
		return Legacy{}, false
	}
	return Legacy{ServerID: id}, true
}

// cutProviderID takes zone and server id out of a providerID.
func cutProviderID(providerID string) (zone, id string, is bool) {
	rest, is := strings.CutPrefix(providerID, infrav1.ProviderIDPrefix)
	if !is {
		return "", "", false
	}
	zone, id, is = strings.Cut(rest, "/")
	return zone, id, is && zone != "" && serverIDForm.MatchString(id)
}

// ProviderZone is the zone in a providerID; empty where that is none.
func ProviderZone(providerID string) string {
	zone, _, _ := cutProviderID(providerID)
	return zone
}

// LegacyStep is what the Machine of the first system needs next.
type LegacyStep string

// The steps of a Machine of the first system.
const (
	// LegacyClaim: the host is the Machine's; claim it as it stands.
	LegacyClaim LegacyStep = "claim"
	// LegacyWait: its server is not known well enough, or a person keeps it back.
	LegacyWait LegacyStep = "wait"
	// LegacyMissing: no host has this server id; the lists tell whether it is gone.
	LegacyMissing LegacyStep = "missing"
	// LegacyOthers: the server is not the Machine's any more: nothing is claimed,
	// and nothing can be released.
	LegacyOthers LegacyStep = "others"
	// LegacyRenamed: the same, by the name that was read last. The Host may keep an
	// old one, of a time before the first system took the server.
	LegacyRenamed LegacyStep = "renamed"
)

// NextLegacy finds the host of such a Machine's server, and says what keeps it from
// being claimed. The vendor's name of the server is a witness that nobody can write
// who only writes objects here: the first system gave each server its Machine's name.
func NextLegacy(m *infrav1.ScalewayAppleSiliconMachine, legacy Legacy, hosts []Host, machines []infrav1.ScalewayAppleSiliconMachine, poolPrefixes ...string) (step LegacyStep, h *Host, why string) {
	for i := range hosts {
		if hosts[i].Spec.ServerID == legacy.ServerID && (legacy.Zone == "" || hosts[i].Spec.Zone == legacy.Zone) {
			h = &hosts[i]
		}
	}
	if h == nil {
		return LegacyMissing, nil, fmt.Sprintf("its server %s is not in the inventory%s", legacy.ServerID, inZone(legacy.Zone))
	}
	if step, why := legacyOwner(m, h, machines, poolPrefixes); step != "" {
		return step, h, why
	}
	if why := notClaimable(h); why != "" {
		return LegacyWait, h, fmt.Sprintf("host %s %s", h.Name, why)
	}
	return LegacyClaim, h, ""
}

func inZone(zone string) string {
	if zone == "" {
		return ""
	}
	return " of zone " + zone
}

// legacyOwner says whose the host is, where it is not clearly the Machine's.
func legacyOwner(m *infrav1.ScalewayAppleSiliconMachine, h *Host, machines []infrav1.ScalewayAppleSiliconMachine, pools []string) (LegacyStep, string) {
	name := h.Status.Server.Name
	switch {
	case h.Spec.ClaimRef != nil:
		return LegacyOthers, fmt.Sprintf("host %s is claimed for Machine %s/%s", h.Name, h.Spec.ClaimRef.Namespace, h.Spec.ClaimRef.Name)
	case h.Spec.Record.DetachedAt != nil:
		return LegacyOthers, fmt.Sprintf("host %s was let go as it was", h.Name)
	case h.Spec.Record.HandedOverAt != nil:
		return LegacyOthers, fmt.Sprintf("host %s is another management cluster's since a move", h.Name)
	case name == "":
		return LegacyWait, fmt.Sprintf("host %s was not read yet", h.Name)
	case pooledName(name, pools...) || releaseName(name, h.Spec.ServerID):
		return LegacyRenamed, fmt.Sprintf("the server of host %s bears the pool name %q: it was released already", h.Name, name)
	case name != m.Name:
		return LegacyRenamed, fmt.Sprintf("the server of host %s is named %q, and not after this Machine; where it is this Machine's all the same, give it the name %q at the vendor", h.Name, name, m.Name)
	}
	for i := range machines {
		other := &machines[i]
		same, is := LegacyServer(other)
		if is && other.Name == m.Name && other.Namespace != m.Namespace && same.ServerID == h.Spec.ServerID {
			return LegacyWait, fmt.Sprintf("Machine %s/%s names the server of host %s, too: delete the one of the two that does not have it", other.Namespace, other.Name, h.Name)
		}
	}
	return "", ""
}

// notClaimable: a person or the vendor keeps the host from being claimed for now.
func notClaimable(h *Host) string {
	switch {
	case !h.DeletionTimestamp.IsZero():
		return "is being removed"
	case h.Status.MissingSince != nil:
		return "is missing from the vendor's list"
	case h.Spec.Maintenance != nil:
		return "is in maintenance" + because(h.Spec.Maintenance.Reason)
	case h.Spec.Quarantine != nil:
		return "is quarantined" + because(h.Spec.Quarantine.Reason)
	case h.Spec.Adopt != nil:
		return "is being adopted into a pool: remove its spec.adopt"
	}
	return ""
}

// TakesOver reports that the Machine's claim takes over a Mac as it stands.
func TakesOver(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return m.Spec.HostRef != nil && m.Spec.HostRef.TakeOver
}
