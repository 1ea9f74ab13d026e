package host

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// ReasonNeverSeenWiped of Available: the pool's hosts are wiped once before they are
// used, and this one was not.
const ReasonNeverSeenWiped = "NeverSeenWiped"

// AwaitsFirstWipe reports that the host is NotWiped by pool.trustUnseen alone: it is wiped by
// itself, and nobody is needed for that.
func AwaitsFirstWipe(h *Host) bool {
	c := meta.FindStatusCondition(h.Status.Conditions, infrav1.AvailableCondition)
	return c != nil && c.Reason == ReasonNeverSeenWiped
}

// neverSeenWiped reports a host of which nothing tells that its disk was wiped after
// whoever had it before: it was neither claimed nor wiped here, and its name is not
// the one that a release gives, <prefix><its server id>.
func neverSeenWiped(h *Host) bool {
	wipe := h.Spec.Record.Wipe
	return wipe.RequiredSince == nil && wipe.RequestedAt == nil && wipe.ObservedAt == nil &&
		!releaseName(h.Status.Server.Name, h.Spec.ServerID)
}

// PrefixOf is the longest of the pools' prefixes that the server's name starts with;
// empty: none.
func PrefixOf(h *Host, prefixes ...string) string {
	longest := ""
	for _, prefix := range prefixes {
		if len(prefix) > len(longest) && strings.HasPrefix(h.Status.Server.Name, prefix) {
			longest = prefix
		}
	}
	return longest
}

// MustWipeUnseen reports that nothing but its unknown past keeps the host from being
// claimed, where such hosts are wiped first.
func MustWipeUnseen(h *Host, seen Observation) bool {
	return seen.RefuseUnseen && !seen.Wanted && neverSeenWiped(h) && unavailable(h, seen.Now, seen.PoolPrefixes...) == "" &&
		PrefixOf(h, seen.PoolPrefixes...) != ""
}

// WipeUnseen claims such a host and releases it to its own pool in one write, as an
// adoption does; the wipe that follows makes it clean.
func WipeUnseen(h *Host, prefix, token string, now time.Time) {
	Claim(h, infrav1.ClaimReference{Namespace: NoNamespace, Name: h.Status.Server.Name, Token: token}, now)
	h.Spec.Release = &infrav1.Release{
		Token: token, Policy: infrav1.Recycle, Origin: infrav1.OriginUnseen, PoolPrefix: prefix,
		OSFamily: h.Status.Server.OSFamily, RequestedAt: *stamp(now),
	}
	RecordDisruption(h, now)
}
