package host

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// OrderName is the name of the Host that is the order of a Machine's server.
func OrderName(machine string) string { return "order-" + machine }

// OrderMeant reports that the Machine's intent is an order, and not yet a server.
func OrderMeant(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return m.Spec.HostRef != nil && m.Spec.HostRef.Name == OrderName(m.Name)
}

// Verdict is what a Machine's controller does about its claim.
type Verdict string

// The verdicts of Repair.
const (
	// Held: the claim is the Machine's and nothing needs repair.
	Held Verdict = "Held"
	// Releasing: the Machine's claim is being ended; nothing to repair.
	Releasing Verdict = "Releasing"
	// Acquire: chosen but not claimed, and still free; claim it with the token.
	Acquire Verdict = "Acquire"
	// ClaimAgain: not claimed, but the server bears the Machine's name: the Host may
	// have been rebuilt. Where MayClaimAgain agrees, claim it with the Machine's
	// token, rename nothing, and take pin, epoch and attempts from its Secret.
	ClaimAgain Verdict = "ClaimAgain"
	// Recreated: the claim is of an earlier object of the Machine's namespace, name and
	// token. It is gone, or the API server would not show this one: record the UID.
	Recreated Verdict = "Recreated"
	// Copied: the claim bears the hostRef's token and is another Machine's: somebody
	// copied the hostRef. Claim nothing, release nothing, and say so.
	Copied Verdict = "Copied"
	// ChooseAgain: chosen but not claimed, and no longer free; drop the intent.
	ChooseAgain Verdict = "ChooseAgain"
	// Lost: the host is another's, by its claim or by its server's name, or it is
	// nobody's after the Machine was provisioned, or the vendor is to delete its server
	// before the Machine was given it; drop the intent if the Machine is not provisioned,
	// and show ClaimLost.
	Lost Verdict = "Lost"
	// PlaceOrder: the intent is an order that is not placed, or whose Host was lost.
	PlaceOrder Verdict = "PlaceOrder"
	// Ordering: the order is placed, and is no server yet.
	Ordering Verdict = "Ordering"
	// Wait: the host is not known well enough yet; its inventory will wake us.
	Wait Verdict = "Wait"
)

// Repair compares the two references of a claim. The Machine has a hostRef, and the host
// is the one that it names, nil when there is no such object.
func Repair(m *infrav1.ScalewayAppleSiliconMachine, h *Host, poolPrefix string) Verdict {
	switch {
	case OrderMeant(m) && h == nil:
		return PlaceOrder
	case OrderMeant(m):
		return repairOrder(m, h)
	case h == nil:
		return Wait
	case h.Spec.ClaimRef != nil:
		return repairClaimed(m, h)
	case h.Status.Server.Name == "":
		return Wait
	case h.Status.Server.Name == m.Name && h.Spec.Record.DetachedAt == nil:
		return ClaimAgain
	case TakesOver(m) && m.Spec.ProviderID == "":
		return Wait // it never gets another host
	case m.Spec.ProviderID != "":
		return Lost // never swapped after it was provisioned
	case Unavailable(h, poolPrefix) != "" || !ofPool(h, poolPrefix) || releaseName(m.Name, h.Spec.ServerID):
		return ChooseAgain
	case h.Spec.Record.Bootstrap.ClaimToken == m.Spec.HostRef.ClaimToken:
		return ChooseAgain // the token of a claim that has ended, maybe of a copied hostRef
	}
	return Acquire
}

func repairOrder(m *infrav1.ScalewayAppleSiliconMachine, h *Host) Verdict {
	if verdict := repairOwner(m, h); verdict != Held {
		return verdict
	}
	if h.Spec.Release != nil {
		return Releasing
	}
	return Ordering
}

func repairClaimed(m *infrav1.ScalewayAppleSiliconMachine, h *Host) Verdict {
	if verdict := repairOwner(m, h); verdict != Held {
		return verdict
	}
	switch {
	case h.Spec.Release != nil:
		return Releasing
	case ChangedByOther(h), Going(h) && m.Spec.ProviderID == "":
		return Lost
	}
	return Held
}

// repairOwner compares whose the claim is, by its whole identity. A release that
// ends the claim is not taken back: the disk may be half wiped.
func repairOwner(m *infrav1.ScalewayAppleSiliconMachine, h *Host) Verdict {
	switch {
	case h.Spec.ClaimRef == nil:
		return Lost
	case MeansClaim(h, m) && !HoldsClaim(h, m) && Ending(h):
		return Releasing
	case MeansClaim(h, m) && !HoldsClaim(h, m):
		return Recreated
	case MeansClaim(h, m):
		return Held
	case h.Spec.ClaimRef.Token == m.Spec.HostRef.ClaimToken:
		return Copied
	}
	return Lost
}

// ChangedByOther reports that somebody else renamed the server after it showed its
// owner's name. Then the host is theirs, and nothing destructive is done to it.
func ChangedByOther(h *Host) bool {
	c := meta.FindStatusCondition(h.Status.Conditions, infrav1.NameInSyncCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == infrav1.ReasonChangedByOther
}

// Going reports that the vendor is to delete the server of a claim that nothing was
// staged for: it is given to nobody.
func Going(h *Host) bool {
	c := meta.FindStatusCondition(h.Status.Conditions, CredentialsStagedCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == infrav1.ReasonDeletionScheduled
}

// ReleaseHeld reports a release that goes no further: the server is somebody else's meanwhile.
func ReleaseHeld(h *Host) bool { return h.Spec.Release != nil && ChangedByOther(h) }

// namingLimit is far longer than the vendor takes for a name.
const namingLimit = 10 * time.Minute

// Unnamed reports a Mac that was wiped for the pool a while ago, and whose server does not have
// its name there yet: the vendor does not take the name.
func Unnamed(h *Host, now time.Time) bool {
	release, wipe := h.Spec.Release, h.Spec.Record.Wipe
	return release != nil && release.Policy == infrav1.Recycle && !ChangedByOther(h) &&
		wipe.RequestedAt != nil && wipe.ObservedAt != nil && now.Sub(wipe.ObservedAt.Time) >= namingLimit
}
