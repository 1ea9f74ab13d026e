package rollout

import "time"

// State is one word for how a Machine is doing in the rollout.
type State string

// The states. A Machine is in one of them.
const (
	// Updated: at the revision, and well.
	Updated State = "updated"
	// Soaking: at the revision, and not yet well for long enough.
	Soaking State = "soaking"
	// Unready: at the revision, and its Node is not Ready; its soak begins when that is.
	Unready State = "unready"
	// Updating: it is its turn.
	Updating State = "updating"
	// Outdated: it waits for its turn.
	Outdated State = "outdated"
	// Drifted: at the revision, but changed behind our back.
	Drifted State = "drifted"
	// Failed: the revision failed on it.
	Failed State = "failed"
	// Held: its change was put off, which is nobody's failure.
	Held State = "held"
)

// States are all states, in the order of a rollout.
func States() []State {
	return []State{Updated, Soaking, Unready, Updating, Outdated, Drifted, Failed, Held}
}

// count says how each Machine does.
func (p *plan) count() {
	p.out.States = map[State]int{}
	for _, m := range p.Machines {
		p.out.States[p.state(m)]++
		if at, well := p.settledAt(m); well {
			p.again(at) // a soak after a bootstrap belongs to no turn
		}
	}
}

func (p *plan) state(m Machine) State {
	_, failed := p.failed(m)
	switch {
	case p.busy(m) && (!p.at(m) || m.Drifted):
		return Updating
	case failed:
		return Failed
	case m.Tried == p.Revision && !p.at(m) && p.Now.Before(NotBefore(0, time.Time{}, m.HeldAt)):
		return Held
	case !p.at(m):
		return Outdated
	case m.Drifted:
		return Drifted
	case p.settled(m):
		return Updated
	case m.ReadySince.IsZero():
		return Unready
	}
	return Soaking
}
