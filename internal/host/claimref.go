package host

import (
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// ClaimOf is the claim that a Machine's hostRef means: its namespace, name, UID
// and token. Its token is empty for a Machine without a hostRef, and then it is no
// claim of any host's.
func ClaimOf(m *infrav1.ScalewayAppleSiliconMachine) infrav1.ClaimReference {
	ref := infrav1.ClaimReference{Namespace: m.Namespace, Name: m.Name, UID: m.UID}
	if m.Spec.HostRef != nil {
		ref.Token = m.Spec.HostRef.ClaimToken
	}
	return ref
}

// HoldsClaim reports that the host is claimed for this very object: namespace,
// name, token and UID are those of the claim. The token alone proves nothing:
// hosts and Machines can be read by many, and spec.hostRef can be copied.
func HoldsClaim(h *Host, m *infrav1.ScalewayAppleSiliconMachine) bool { return Holds(h, ClaimOf(m)) }

// Holds is HoldsClaim for a claim that was noted earlier. A claim from before
// claimRef.uid was known is held by name.
func Holds(h *Host, claim infrav1.ClaimReference) bool {
	return Carries(h, claim) && sameUID(h.Spec.ClaimRef.UID, claim.UID)
}

// MeansClaim reports that the host is claimed for the Machine's namespace, name
// and token, for this object or for an earlier one of its name. Names are unique,
// so the object that the API server shows under this name is the only one that can
// be meant: where its UID is not the claim's, the first object is gone.
func MeansClaim(h *Host, m *infrav1.ScalewayAppleSiliconMachine) bool { return Carries(h, ClaimOf(m)) }

// Carries is MeansClaim for a claim that was noted earlier.
func Carries(h *Host, claim infrav1.ClaimReference) bool {
	return h.Spec.ClaimRef != nil && SameClaim(*h.Spec.ClaimRef, claim)
}

// SameClaim reports that two references are to one claim: namespace, name and token
// agree. The UID may follow an owner that is created again.
func SameClaim(a, b infrav1.ClaimReference) bool {
	return a.Token != "" && a.Token == b.Token && a.Namespace == b.Namespace && a.Name == b.Name
}

// ClaimedOutside reports that the host is claimed from another namespace than this one, which
// is a manager's; empty: of a manager of all namespaces. A claim that no Machine made is of none.
func ClaimedOutside(h *Host, namespace string) bool {
	claim := h.Spec.ClaimRef
	return namespace != "" && claim != nil && claim.Namespace != namespace && claim.Namespace != NoNamespace
}

func sameUID(a, b types.UID) bool { return a == "" || b == "" || a == b }

// LeftBehind reports that a Node which bears this host's providerID and the Machine's
// name is none any more: the host is claimed for a Machine of another name, or went
// back to a pool. A host that somebody else renamed may still be at work.
func LeftBehind(h *Host, m *infrav1.ScalewayAppleSiliconMachine) bool {
	if h.Spec.ClaimRef == nil {
		return releaseName(h.Status.Server.Name, h.Spec.ServerID)
	}
	return h.Spec.ClaimRef.Name != m.Name
}

// Namesake reports that the host is claimed for another Machine that bears the
// Machine's name, as in another namespace: the Node of that name is the other's.
func Namesake(h *Host, m *infrav1.ScalewayAppleSiliconMachine) bool {
	return h != nil && h.Spec.ClaimRef != nil && h.Spec.ClaimRef.Name == m.Name && !MeansClaim(h, m)
}
