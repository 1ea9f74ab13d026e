package main

// The phases of each size.
const (
	phaseStart = "managers start"
	phaseUp    = "claims and convergence"
	phaseRest  = "at rest"
	phaseDown  = "all released"
)

// cost is what a fleet of one size takes.
type cost struct {
	hosts int
	// found: managers started, until they knew all hosts. up: until all Machines ran. rest: nothing happened.
	// down: until all hosts were wiped and free; nothing where the run was ended before.
	found, up, rest, down usage
	// claimedSeconds of up are those until all Machines had a host.
	claimedSeconds float64
	// emptyMB is the manager's memory without Machines, restMB with all of them, peakMB the most until then.
	emptyMB, restMB, peakMB float64
	// restGoroutines and peakGoroutines are the manager's.
	restGoroutines, peakGoroutines int
}

// costs are those of each size, from the smallest.
func (r *record) costs() (all []cost) {
	for _, p := range r.Phases {
		if p.Name == phaseStart {
			all = append(all, cost{hosts: p.Hosts})
		}
		if len(all) == 0 {
			continue
		}
		switch c := &all[len(all)-1]; p.Name {
		case phaseStart:
			c.found = p.Used
		case phaseUp:
			c.up = p.Used
			r.look(c, p)
		case phaseRest:
			c.rest = p.Used
			r.look(c, p)
		case phaseDown:
			c.down = p.Used
		}
	}
	return all
}

// look takes from the samples of a phase what the manager held.
func (r *record) look(c *cost, p phase) {
	c.restGoroutines = 0
	for _, s := range r.Samples {
		if s.Seconds < p.Begin || s.Seconds > p.End {
			continue
		}
		if p.Name == phaseUp && c.emptyMB == 0 {
			c.emptyMB = s.MemoryMB
		}
		if p.Name == phaseUp && c.claimedSeconds == 0 && s.Claimed >= c.hosts {
			c.claimedSeconds = s.Seconds - p.Begin
		}
		c.peakMB, c.peakGoroutines = max(c.peakMB, s.MemoryMB), max(c.peakGoroutines, s.Goroutines)
		c.restMB = s.MemoryMB // of the last one
		if s.Goroutines > 0 { // of the last one in which the manager answered
			c.restGoroutines = s.Goroutines
		}
	}
}
