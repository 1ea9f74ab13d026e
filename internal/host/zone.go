package host

import (
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/cloud"
)

// Unreadable says since when the zone cannot be listed, and why; empty: it can.
func (r ZoneReport) Unreadable() string {
	if r.Err == nil {
		return ""
	}
	said := "the zone cannot be listed"
	if !r.FailingSince.IsZero() {
		said += " since " + r.FailingSince.UTC().Format(time.RFC3339)
	}
	return said + ": " + cloud.Said(r.Err)
}

// Vanished counts what a list that is not believed lacks.
func (r ZoneReport) Vanished() string {
	return fmt.Sprintf("%d of %d servers vanished at once", r.Missing, r.Expected)
}
