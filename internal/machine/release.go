package machine

import (
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// ReleasePlan is what the deletion of a Machine does with the host that it holds.
type ReleasePlan string

// What a deletion does.
const (
	// ReleaseNothing: the host's release is recorded, and it goes on alone.
	ReleaseNothing ReleasePlan = "Nothing"
	// ReleaseMoved: the host is another management cluster's.
	ReleaseMoved ReleasePlan = "Moved"
	// ReleaseOrder: the host is an order; it is cancelled.
	ReleaseOrder ReleasePlan = "Order"
	// ReleaseClaimOnly: somebody else named the server; the claim is cleared, and nothing
	// is wiped.
	ReleaseClaimOnly ReleasePlan = "ClaimOnly"
	// ReleaseGone: there is no server any more.
	ReleaseGone ReleasePlan = "Gone"
	// ReleaseByPolicy: the Node is drained, the Mac told to leave, and then the Machine's
	// releasePolicy holds.
	ReleaseByPolicy ReleasePlan = "ByPolicy"
)

// PlanRelease says what a deletion does with the Machine's host. ServerGone: the vendor's
// lists prove that there is no server.
func PlanRelease(h *host.Host, serverGone bool) ReleasePlan {
	switch {
	case host.Ending(h):
		return ReleaseNothing
	case h.Spec.Record.HandedOverAt != nil:
		return ReleaseMoved
	case h.Spec.Order != nil:
		return ReleaseOrder
	case host.ChangedByOther(h):
		return ReleaseClaimOnly
	case serverGone:
		return ReleaseGone
	}
	return ReleaseByPolicy
}

// ReasonNoPolicy is Released's reason while the Machine lives and its annotation
// names no release policy.
const ReasonNoPolicy = "UnknownReleasePolicy"

// NoPolicy warns of an annotation that names no release policy.
func NoPolicy(value string, instead infrav1.ReleasePolicy) Finding {
	return False(ReasonNoPolicy, "annotation %s is %.64q; known: terminate, recycle, detach; until then %s holds", infrav1.ReleasePolicyAnnotation, value, instead)
}
