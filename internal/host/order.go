package host

import (
	"fmt"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// How an order is asked for.
const (
	// OrderPrompt is how soon after its record an order must be sent: a later one
	// could cross with that of another manager.
	OrderPrompt = 5 * time.Second
	// OrderDeadline bounds the call.
	OrderDeadline = 10 * time.Second
	// OrderSettle after its record was seen, a list shows the server of an order whose
	// answer was lost: it was sent promptly, ended by its deadline, and lists lag behind
	// writes by less than half a minute.
	OrderSettle = OrderPrompt + OrderDeadline + ListLag
	// OrderBackOff is how long a refused order rests: stock and quotas change slowly.
	OrderBackOff = 5 * time.Minute
)

// OrderInput is what a list of the zone says about an order.
type OrderInput struct {
	// Began is when the list was asked for.
	Began time.Time
	// Found: it holds a server of the order's name.
	Found bool
	// Believed: the credentials worked, and no servers vanished in numbers.
	Believed bool
	// AttemptSeen is when this manager first saw the attempt that is on record: the time
	// on record may be by another manager's clock, and is compared with none.
	AttemptSeen time.Time
	// LackingSince is when the first believed list was begun that lacked the name after
	// the attempt had settled, with none since that held it; zero: there is none.
	LackingSince time.Time
	// Empty: it holds no server at all, which may also be lost rights.
	Empty bool
	// Ended: the server is no longer wanted.
	Ended bool
}

// Settled reports that the list was begun when the attempt on record had to show in it.
func (l OrderInput) Settled(h *Host) bool {
	if h.Spec.Order.AttemptedAt == nil {
		return true
	}
	return !l.AttemptSeen.IsZero() && !l.Began.Before(l.AttemptSeen.Add(OrderSettle))
}

// absent reports that lists lack the name for so long that no server bears it. One
// list is never enough: it may have missed a server.
func (l OrderInput) absent() bool {
	return !l.LackingSince.IsZero() && l.Began.Sub(l.LackingSince) >= l.absenceNeeded()
}

// absenceNeeded is for how long lists must lack a name to prove that no server has it.
func (l OrderInput) absenceNeeded() time.Duration {
	if l.Empty {
		return GoneAfterSuspicious
	}
	return GoneAfter
}

// OrderStep is what an order needs next.
type OrderStep string

// The steps of an order.
const (
	// OrderDeliver: the server is there; make its Host.
	OrderDeliver OrderStep = "deliver"
	// OrderCreate: nothing came of earlier attempts, if there were any; ask.
	OrderCreate OrderStep = "create"
	// OrderWait: an attempt may still show.
	OrderWait OrderStep = "wait"
	// OrderTaken: a server bears the name that this order never asked for.
	OrderTaken OrderStep = "taken"
	// OrderDrop: no longer wanted, and proved that no server came of it.
	OrderDrop OrderStep = "drop"
)

// NextOrder decides from a list of the zone. The vendor knows no idempotency key:
// the name is the only handle on an attempt whose answer was lost, and a second
// server bills for a day at least. Before the first attempt a server of the name
// is somebody else's.
func NextOrder(h *Host, in OrderInput) OrderStep {
	asked := h.Spec.Order.AttemptedAt != nil
	switch {
	case in.Found && !asked && in.Ended:
		return OrderDrop
	case in.Found && !asked:
		return OrderTaken
	case in.Found:
		return OrderDeliver
	case !in.Believed, !in.Settled(h):
		return OrderWait
	case !asked && !in.Ended:
		return OrderCreate
	case !in.absent():
		return OrderWait
	case in.Ended:
		return OrderDrop
	}
	return OrderCreate
}

// Deliver claims the host that an order became, for the order's own claim. The
// server is fresh: nobody owned its disk, and the claim opens its first epoch.
// A release of the order goes along. It reports whether anything changed, and
// fails for a host that is not free to take.
func Deliver(h, order *Host, now time.Time) (changed bool, err error) {
	if Carries(h, *order.Spec.ClaimRef) {
		if order.Spec.Release != nil && h.Spec.Release == nil {
			h.Spec.Release = order.Spec.Release.DeepCopy()
			return true, nil
		}
		return false, nil
	}
	if h.Spec.ClaimRef != nil || h.Spec.Release != nil || !h.DeletionTimestamp.IsZero() || !Clean(h) {
		return false, &TakenError{h.Name, order.Spec.Order.Name}
	}
	Claim(h, *order.Spec.ClaimRef, now)
	h.Spec.Record.Ordered, h.Spec.Record.OrderedFor = true, order.Spec.Order.Profile
	h.Spec.Release = order.Spec.Release.DeepCopy()
	return true, nil
}

// TakenError is an order whose name a server bears that is not free to take.
type TakenError struct{ Host, Name string }

// Error is one clear line for people.
func (e *TakenError) Error() string {
	return fmt.Sprintf("the server of host %s bears the name %q already, and is claimed or not clean", e.Host, e.Name)
}

// NamesakeError is an order whose name a server bears that was there before it.
type NamesakeError struct{ Server, Name string }

// Error is one clear line for people, with the way out.
func (e *NamesakeError) Error() string {
	return fmt.Sprintf("server %s bears the name %q already and was not ordered for this Machine: names must differ in a vendor's project; "+
		"rename the server, or delete the Machine; then, if a lost order left the server behind, adopt its host", e.Server, e.Name)
}

// OrderRefusal is the condition's reason for a refused order; empty: nothing was
// refused for good, and the vendor is asked again soon.
func OrderRefusal(err error) string {
	switch cloud.KindOf(err) {
	case cloud.KindOutOfStock:
		return infrav1.ReasonOutOfStock
	case cloud.KindQuota:
		return infrav1.ReasonQuotaExceeded
	case cloud.KindInvalid, cloud.KindNotFound, cloud.KindForbidden, cloud.KindFloor, cloud.KindUnknownZone:
		return infrav1.ReasonOrderRejected
	default:
		return ""
	}
}

// UnknownType says what is wrong with a type that a zone does not have; empty:
// nothing, or the zone names none.
func UnknownType(zone, kind string, types []cloud.ServerType) string {
	var names []string
	for _, t := range types {
		if t.Name == kind {
			return ""
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("type %q does not exist in zone %s; it has %s", kind, zone, strings.Join(names, ", "))
}
