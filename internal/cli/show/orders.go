package show

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/host"
)

// NotDelivered is what an ordered server waits for.
const NotDelivered = "the vendor has not delivered it yet"

// Undelivered says whether a host is a server that was ordered, and that the vendor has not
// delivered yet: nothing is wrong with it.
func Undelivered(h *infrav1.ScalewayAppleSiliconHost) bool {
	leaves := h.Spec.Release != nil || h.Status.Phase == infrav1.HostGone
	return h.Spec.Order == nil && h.Spec.Record.Ordered && h.Status.Server.Status != "" && !h.Status.Server.Delivered && !leaves
}

// Orders is the table of hosts that are orders still, or servers that were not delivered yet.
func Orders(orders []infrav1.ScalewayAppleSiliconHost, now time.Time, wide bool, by string) (screen.Table, error) {
	type host = infrav1.ScalewayAppleSiliconHost
	return tableOf(orders, []column[host]{
		{title: "ORDER", cell: func(h *host) screen.Cell { return plain(h.Name) }},
		{title: "FOR", cell: func(h *host) screen.Cell { return plain(orderOf(h).Name) }},
		{title: "TYPE", cell: func(h *host) screen.Cell { return plain(orderOf(h).Type) }},
		{title: "ZONE", cell: func(h *host) screen.Cell { return plain(orderOf(h).Zone) }},
		{title: "OS", wide: true, cell: func(h *host) screen.Cell { return plain(orderOf(h).OS) }},
		{title: "PROFILE", wide: true, cell: func(h *host) screen.Cell { return plain(orderOf(h).Profile) }},
		{title: "ASKED", cell: func(h *host) screen.Cell { return plain(asked(h, now)) }},
		{
			title: "AGE", cell: func(h *host) screen.Cell { return plain(ago(now, &h.CreationTimestamp.Time)) },
			order: func(a, b *host) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) },
		},
		{title: "SAYS", cell: func(h *host) screen.Cell { return plain(orderSays(h)) }},
	}, wide, by)
}

// orderOf is what was ordered; of a server that is there already, what it is.
func orderOf(h *infrav1.ScalewayAppleSiliconHost) infrav1.OrderRequest {
	if h.Spec.Order != nil {
		return *h.Spec.Order
	}
	return infrav1.OrderRequest{Name: claimOf(h), Type: h.Status.Server.Type, OS: h.Status.Server.OSFamily, Zone: h.Spec.Zone}
}

func asked(h *infrav1.ScalewayAppleSiliconHost, now time.Time) string {
	switch {
	case h.Spec.Order == nil:
		return "taken"
	case h.Spec.Order.AttemptedAt == nil:
		return "not yet"
	}
	return fmt.Sprintf("%s ago", ago(now, &h.Spec.Order.AttemptedAt.Time))
}

// orderSays is what is in the way of an order: why it ends, or why there is no server yet. That
// the Mac is not available yet says nothing more.
func orderSays(h *infrav1.ScalewayAppleSiliconHost) string {
	if Undelivered(h) {
		return NotDelivered
	}
	for _, kind := range []string{host.RetiredCondition, infrav1.OrderedCondition} {
		c := meta.FindStatusCondition(h.Status.Conditions, kind)
		switch {
		case c != nil && Unhealthy(*c):
			return because(c.Reason, c.Message)
		case c != nil:
			return c.Message
		}
	}
	return "" // ASKED says that the vendor was not asked yet
}
