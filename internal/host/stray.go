package host

import (
	"slices"
	"strings"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// pendingPrefix starts the name of a server that the first system was in the midst of
// adopting. Such a server is on its way to a Machine, and no stray.
const pendingPrefix = "tuist-claim-pending-"

// Owners is what the live Machines of all namespaces tell of servers. A Machine
// that is being deleted lives until it is gone.
type Owners struct {
	// names are the Machines' own, and of each Machine of a name the servers that it says it has.
	names   map[string][][]string
	servers map[string]bool
	// claims by the name of the host that hostRef names.
	claims map[string][]infrav1.ClaimReference
}

// OwnersOf gathers what Machines tell. A Machine made before hosts were objects
// tells its name only.
func OwnersOf(machines []infrav1.ScalewayAppleSiliconMachine) Owners {
	owners := Owners{map[string][][]string{}, map[string]bool{}, map[string][]infrav1.ClaimReference{}}
	for i := range machines {
		owners.add(&machines[i])
	}
	return owners
}

func (o Owners) add(m *infrav1.ScalewayAppleSiliconMachine) {
	o.names[m.Name] = append(o.names[m.Name], serversOf(m))
	if m.Status.ServerID != "" {
		o.servers[m.Status.ServerID] = true
	}
	if at := strings.LastIndex(m.Spec.ProviderID, "/"); at >= 0 {
		o.servers[m.Spec.ProviderID[at+1:]] = true
	}
	if m.Spec.HostRef != nil {
		o.claims[m.Spec.HostRef.Name] = append(o.claims[m.Spec.HostRef.Name], ClaimOf(m))
	}
}

// serversOf are the ids of the servers that a Machine says it has, or is about to take: by
// spec.providerID, status.serverID and spec.hostRef. An order is no server yet.
func serversOf(m *infrav1.ScalewayAppleSiliconMachine) (ids []string) {
	if _, id, is := cutProviderID(m.Spec.ProviderID); is {
		ids = append(ids, id)
	}
	if m.Status.ServerID != "" {
		ids = append(ids, m.Status.ServerID)
	}
	if ref := m.Spec.HostRef; ref != nil && NamesServer(ref.Name) {
		_, id := SplitName(ref.Name)
		ids = append(ids, id)
	}
	return ids
}

// Have reports that a live Machine may have the host: the server bears its name, or it
// means the host. It is for what may destroy something: a Machine that says it has
// another server can be mistaken, as one that was restored from a backup.
func (o Owners) Have(h *Host) bool { return len(o.names[h.Status.Server.Name]) > 0 || o.Mean(h) }

// Account reports that a live Machine accounts for the host: it means it, or the server
// bears the name of one that says of no other server that it has that.
func (o Owners) Account(h *Host) bool {
	return o.Mean(h) || slices.ContainsFunc(o.names[h.Status.Server.Name], func(servers []string) bool {
		return len(servers) == 0 || slices.Contains(servers, h.Spec.ServerID)
	})
}

// Mean reports that a live Machine means the host by its id or its hostRef; a name
// alone means nothing. A hostRef to a host that is claimed for somebody else means nothing.
func (o Owners) Mean(h *Host) bool { return o.servers[h.Spec.ServerID] || o.choose(h) }

func (o Owners) choose(h *Host) bool {
	if h.Spec.ClaimRef == nil {
		return len(o.claims[h.Name]) > 0
	}
	return slices.ContainsFunc(o.claims[h.Name], func(claim infrav1.ClaimReference) bool { return Carries(h, claim) })
}

// StrayKind says what kind of stray a host is; empty: it is none.
type StrayKind string

// The kinds of strays.
const (
	// StrandedStray was ours, and its Machine is gone.
	StrandedStray StrayKind = "stranded"
	// ForeignStray bears a name that means nothing here: another cluster's, one that
	// somebody is preparing, or that of a Machine which has another server.
	ForeignStray StrayKind = "foreign"
)

// Naming is what names of servers mean here.
type Naming struct {
	// Pools are the prefixes of pool names.
	Pools []string
	// Claimed starts the names of servers that this cluster claimed; empty: a name
	// alone tells nothing.
	Claimed string
}

// Stray says what kind of stray a host is, and why, or why it is none. A stray is
// a server that bills while neither a pool, nor a claim in progress, nor a
// release, nor a live Machine accounts for it.
func Stray(h *Host, owners Owners, naming Naming) (StrayKind, string) {
	name := h.Status.Server.Name
	switch {
	case h.Spec.ServerID == "":
		return "", "an order, and no server yet"
	case name == "":
		return "", "not seen yet"
	case h.Spec.Release != nil:
		return "", "being released"
	case h.Spec.Record.HandedOverAt != nil:
		return "", "of another management cluster since a move"
	case h.Spec.Adopt != nil:
		return "", "being adopted"
	case owners.Account(h):
		return "", "of a live Machine"
	case h.Spec.ClaimRef == nil && h.Status.Server.DeletionScheduled:
		return "", "being deleted by the vendor"
	case h.Spec.ClaimRef != nil:
		return StrandedStray, "claimed, and no Machine is left that it is of"
	case strings.HasPrefix(name, pendingPrefix):
		return "", "being adopted by another system"
	case InPool(name, h.Spec.ServerID, naming.Pools...):
		return "", "in the pool"
	case h.Spec.Record.DetachedAt != nil:
		return ForeignStray, "let go by its Machine on purpose"
	case owners.Have(h):
		return ForeignStray, "named as a live Machine that has another server"
	case claimedName(h, naming.Claimed):
		return StrandedStray, "named as this cluster names what it claims, and no Machine is left that it is of"
	}
	return ForeignStray, "named by others"
}

// claimedName reports that a server's name is one that this cluster gave for a claim. One
// that a release gave is not, whatever it starts with: it is of a pool, also of one that is
// not known here.
func claimedName(h *Host, prefix string) bool {
	name := h.Status.Server.Name
	return pooledName(name, prefix) && !releaseName(name, h.Spec.ServerID)
}
