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
	there := map[string]bool{}
	for _, h := range c.hosts() {
		there[string(h.UID)] = true
	}
	// What a Host that was deleted remembered is gone with it.
	maps.DeleteFunc(c.disturbed, func(uid string, at time.Time) bool { return s.clock.Since(at) >= hour || !there[uid] })
	c.disturbed[string(now.UID)] = s.clock.Now()
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
	if c.sim.apart || c.sim.clock.Since(c.overlapEnds) < time.Hour {
		return 1
	}
	return 0
}

// disturbs: the release is begun on the product's own account.
func disturbs(r *infrav1.Release) bool {
	return r.Origin == infrav1.OriginRecovery || r.Origin == infrav1.OriginReclaim
}
