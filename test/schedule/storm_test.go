package schedule

import (
	"maps"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// judgeStorm counts what recovery and the sweep disturb by themselves: at most a
// fifth of the zone's hosts within an hour, and at least one. The clocks of two
// managers may differ, and two that lead at once may both come just in time.
func (c *cluster) judgeStorm(now *host.Host) {
	s := c.sim
	hour := time.Hour - 2*mostSkew
	maps.DeleteFunc(c.disturbed, func(id string, at time.Time) bool {
		return s.clock.Since(at) >= hour || c.hostOf(id) == nil
	})
	c.disturbed[now.Spec.ServerID] = s.clock.Now()
	all := 0
	for _, h := range c.hosts() {
		if h.Spec.Zone == now.Spec.Zone {
			all++
		}
	}
	if most := max(1, all/5) + c.rivals(); len(c.disturbed) > most {
		s.violate("%d hosts were disturbed within the hour, the last of them %s; %d of %d may be", len(c.disturbed), now.Name, most, all)
	}
}

// rivals are how many managers may decide at once beside the first: one, for as
// long as two lead.
func (c *cluster) rivals() int {
	if c.sim.clock.Since(c.overlapEnds) < time.Hour {
		return 1
	}
	return 0
}

// disturbs: the release is begun on the product's own account.
func disturbs(r *infrav1.Release) bool {
	return r.Origin == infrav1.OriginRecovery || r.Origin == infrav1.OriginReclaim
}
