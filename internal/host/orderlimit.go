package host

import (
	"fmt"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// OrderCount counts what a profile's Machines ordered and what still bills: servers,
// until they are gone at the vendor, also those that went to the pool since; and
// orders that are no server yet, the refused ones included, which are asked again.
type OrderCount struct{ Servers, InFlight int }

// CountOrders counts the orders of a profile, <namespace>/<name>. An order whose
// server has its Host is counted once.
func CountOrders(profile string, hosts []infrav1.ScalewayAppleSiliconHost) OrderCount {
	var n OrderCount
	delivered := map[[3]string]bool{} // a token alone proves nothing: it can be copied
	for i := range hosts {
		if h := &hosts[i]; h.Spec.ServerID != "" && h.Spec.Record.OrderedFor == profile {
			n.Servers++
			if h.Spec.ClaimRef != nil {
				delivered[claimKey(h.Spec.ClaimRef)] = true
			}
		}
	}
	for i := range hosts {
		h := &hosts[i]
		if h.Spec.Order != nil && h.Spec.Order.Profile == profile && (h.Spec.ClaimRef == nil || !delivered[claimKey(h.Spec.ClaimRef)]) {
			n.InFlight++
		}
	}
	return n
}

// claimKey tells one claim from the next, as SameClaim does.
func claimKey(ref *infrav1.ClaimReference) [3]string {
	return [3]string{ref.Namespace, ref.Name, ref.Token}
}

// Exceeded says why nothing more may be ordered; empty: one more may. A limit of nil
// is none.
func (n OrderCount) Exceeded(profile string, limit *int32) string {
	if limit == nil || n.Servers+n.InFlight < int(*limit) {
		return ""
	}
	return fmt.Sprintf("MacNodeProfile %s allows %d ordered servers (spec.maxOrdered), and there are %d, with %d more on order: "+
		"raise spec.maxOrdered, or wait until one is deleted at the vendor", profile, *limit, n.Servers, n.InFlight)
}
