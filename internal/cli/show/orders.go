package show

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/screen"
)

// Orders is the table of hosts that are orders still.
func Orders(orders []infrav1.ScalewayAppleSiliconHost, now time.Time, wide bool, by string) (screen.Table, error) {
	type host = infrav1.ScalewayAppleSiliconHost
	return tableOf(orders, []column[host]{
		{title: "ORDER", cell: func(h *host) screen.Cell { return plain(h.Name) }},
		{title: "FOR", cell: func(h *host) screen.Cell { return plain(h.Spec.Order.Name) }},
		{title: "TYPE", cell: func(h *host) screen.Cell { return plain(h.Spec.Order.Type) }},
		{title: "ZONE", cell: func(h *host) screen.Cell { return plain(h.Spec.Order.Zone) }},
		{title: "OS", wide: true, cell: func(h *host) screen.Cell { return plain(h.Spec.Order.OS) }},
		{title: "PROFILE", wide: true, cell: func(h *host) screen.Cell { return plain(h.Spec.Order.Profile) }},
		{title: "ASKED", cell: func(h *host) screen.Cell { return plain(asked(h, now)) }},
		{
			title: "AGE", cell: func(h *host) screen.Cell { return plain(ago(now, &h.CreationTimestamp.Time)) },
			order: func(a, b *host) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) },
		},
		{title: "SAYS", cell: func(h *host) screen.Cell { return plain(orderSays(h)) }},
	}, wide, by)
}

func asked(h *infrav1.ScalewayAppleSiliconHost, now time.Time) string {
	if h.Spec.Order.AttemptedAt == nil {
		return "not yet"
	}
	return fmt.Sprintf("%s ago", ago(now, &h.Spec.Order.AttemptedAt.Time))
}

func orderSays(h *infrav1.ScalewayAppleSiliconHost) string {
	if c := meta.FindStatusCondition(h.Status.Conditions, infrav1.AvailableCondition); c != nil && Unhealthy(*c) {
		return because(c.Reason, c.Message)
	}
	return ""
}
