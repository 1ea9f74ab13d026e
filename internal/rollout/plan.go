package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

const (
	// DefaultSoak is longer than it takes to notice a Node whose agent died: 40 s,
	// kube-controller-manager's grace.
	DefaultSoak = 2 * time.Minute
	// CoolDown ends a halt by itself: what broke may have been mended outside.
	CoolDown = 30 * time.Minute
	// settleLimit is how long a changed Mac may take to be well; then its change
	// counts as failed. It is also how long a Mac that is not Ready is waited for.
	settleLimit = 15 * time.Minute
	// permitLimit is how long a permit may last without a proof or a failure: the Mac
	// cannot be pushed to, and the others need not wait for it.
	permitLimit = time.Hour
	// inARow failures on different Macs halt a rollout.
	inARow = 2
	// clocksDiffer is by how much the clocks of two managers may differ.
	clocksDiffer = 10 * time.Minute
)

// Machine is what is known of one Mac that was bootstrapped before.
type Machine struct {
	Name string
	// Applied is the revision the Mac last proved, at ProvedAt.
	Applied  string
	ProvedAt time.Time
	// ProvedSeen is when the manager that plans first saw that proof, by the clock of Now.
	// Zero: nobody knows.
	ProvedSeen time.Time
	// Turn is the revision it may be changed to, or empty; PermitAt is when its last
	// permit began.
	Permit   string
	PermitAt time.Time
	// ReadySince: its Node is Ready since then. Zero: it is not.
	ReadySince time.Time
	// DownSince: its Node is not Ready since then. Zero: it is, or nobody knows.
	DownSince time.Time
	// ShortSince: its Node has DiskPressure since then, and takes no Pods. Zero: it has none.
	ShortSince time.Time
	// Lost guests died since its permit began.
	Lost int
	// Drifted: a check found that it was changed behind our back.
	Drifted bool
	// Tried is the revision that Failures, FailedAt and HeldAt speak of.
	Tried            string
	Failures         int
	FailedAt, HeldAt time.Time
	// RetriedAt is the HeldAt of a try that failed, and is given once more before that
	// counts, since it may have been nobody's fault.
	RetriedAt time.Time
	// Asleep: it cannot be pushed to for now, as while it is paused or leaves.
	Asleep bool
}

// Input is everything that a plan depends on.
type Input struct {
	Revision string
	Policy   infrav1.RolloutPolicy
	Machines []Machine
	Now      time.Time
}

// Decision says which update permits begin and end, and what is to be told.
type Decision struct {
	// Begin and End name Machines whose permits begin and end now, in order of name.
	Begin, End []string
	// Halted is the reason why nothing more begins, or empty; Why is for people.
	Halted, Why string
	// HaltedUntil is when the halt ends by itself.
	HaltedUntil time.Time
	// Again is when to look again if nothing happens before; zero: never.
	Again time.Time
	// States count the Machines.
	States map[State]int
	// Missed names the Macs that are not Ready, where others do not begin for that.
	Missed []string
}

// Plan decides. It depends on nothing but its input, so that two managers that
// have read the same decide the same.
func Plan(in Input) Decision {
	in.Machines = slices.Clone(in.Machines)
	slices.SortFunc(in.Machines, func(a, b Machine) int { return cmp.Compare(a.Name, b.Name) })
	p := &plan{Input: in, canary: int(ptr.Deref(in.Policy.Canary, 1)), soak: DefaultSoak, max: 1}
	if in.Policy.Soak != nil {
		p.soak = in.Policy.Soak.Duration
	}
	if in.Policy.MaxUnavailable > 0 {
		p.max = int(in.Policy.MaxUnavailable)
	}
	p.halt()
	p.endPermits()
	if !in.Policy.Paused {
		p.heal()
		p.update()
	}
	p.count()
	slices.Sort(p.out.Begin)
	slices.Sort(p.out.End)
	return p.out
}

type plan struct {
	Input
	canary, max int
	soak        time.Duration
	out         Decision
}

// at is whether the Mac proved the revision.
func (p *plan) at(m Machine) bool { return m.Applied == p.Revision }

// halt stops the rollout after a canary or two Macs in a row have failed, until
// the cool-down is over. It is told by the Macs alone, so that no manager can
// forget it.
func (p *plan) halt() {
	var last, success time.Time
	var failures []time.Time
	updated, name := 0, ""
	for _, m := range p.Machines {
		if at, failed := p.failed(m); failed {
			failures = append(failures, at)
			if at.After(last) {
				last, name = at, m.Name+p.afterwards(m)
			}
			continue
		}
		if p.settled(m) {
			updated++
			if m.ProvedAt.After(success) {
				success = m.ProvedAt
			}
		}
	}
	recent := 0
	for _, at := range failures {
		if at.After(success) {
			recent++
		}
	}
	until := last.Add(CoolDown)
	if len(failures) == 0 || !p.Now.Before(until) {
		return
	}
	switch {
	case updated < p.canary:
		p.out.Halted, p.out.Why = infrav1.ReasonCanaryFailed, fmt.Sprintf("the revision failed on %s, one of the first to try it", name)
	case recent >= inARow:
		p.out.Halted, p.out.Why = infrav1.ReasonFailedInARow, fmt.Sprintf("the revision failed on %d Macs in a row, last on %s", recent, name)
	default:
		return
	}
	p.out.HaltedUntil = until
	p.again(until)
}

// endPermits takes permits away that are over.
func (p *plan) endPermits() {
	for i := range p.Machines {
		m := &p.Machines[i]
		if m.Permit == "" {
			continue
		}
		if p.over(*m) {
			p.out.End = append(p.out.End, m.Name)
			m.Permit = ""
		}
	}
}

// over reports a permit that has come to its end, whichever it is.
func (p *plan) over(m Machine) bool {
	if _, failed := p.failed(m); failed && p.at(m) {
		return true
	}
	if m.Permit != p.Revision { // another revision came meanwhile
		return p.out.Halted != "" || p.Policy.Paused || p.permits() >= p.atOnce() || !p.renew(m)
	}
	limit := p.limit(m)
	if !p.Now.Before(limit) {
		return true
	}
	p.again(limit)
	at, well := p.settledAt(m)
	switch {
	case m.Drifted, !p.at(m):
		return p.tried(m) || m.Asleep || p.out.Halted != "" && !p.at(m)
	case well && !p.Now.Before(at):
		return true
	case well:
		p.again(at)
	}
	return false
}

// limit is when a permit ends whatever becomes of it. It does not depend on when the
// Mac proved something, which another manager's clock may have told; a permit that
// begins in a future that no clock could be wrong by ends at once.
func (p *plan) limit(m Machine) time.Time {
	switch {
	case m.PermitAt.After(p.Now.Add(permitLimit)):
		return p.Now
	case m.Drifted, !p.at(m):
		return m.PermitAt.Add(permitLimit)
	}
	return m.PermitAt.Add(permitLimit + settleLimit + p.soak)
}

// renew gives the permit of a former revision to the present one: that Mac is being
// changed anyhow, and another one would be the second.
func (p *plan) renew(m Machine) bool {
	if m.Asleep || p.at(m) && !m.Drifted {
		return false
	}
	p.out.Begin = append(p.out.Begin, m.Name)
	return true
}

// tried reports a permit whose try came to nothing: it failed or was put off.
func (p *plan) tried(m Machine) bool {
	since := func(at time.Time) bool { return !at.IsZero() && !at.Before(m.PermitAt) }
	return m.Tried == p.Revision && (since(m.HeldAt) || m.Failures > 0 && since(m.FailedAt))
}

// atOnce is how many Macs may be changed at once: canaries go one by one.
func (p *plan) atOnce() int {
	if p.settledCount() < p.canary {
		return 1
	}
	return p.max
}

// permits counts the permits for the revision, those that are renewed now included.
func (p *plan) permits() int {
	n := len(p.out.Begin)
	for _, m := range p.Machines {
		if m.Permit == p.Revision {
			n++
		}
	}
	return n
}

// busy reports a Mac that holds a permit, or will.
func (p *plan) busy(m Machine) bool { return m.Permit != "" || slices.Contains(p.out.Begin, m.Name) }

// away reports a Mac that is not Ready and waited for. Hardware may be dead for
// days: after settleLimit nobody counts on it, and the others go on without it.
func (p *plan) away(m Machine) bool {
	if !m.ReadySince.IsZero() {
		return false
	}
	if m.DownSince.IsZero() {
		return !m.Asleep // a paused Machine never says since when
	}
	limit := m.DownSince.Add(settleLimit)
	p.again(limit)
	return p.Now.Before(limit)
}

// unavailable counts the Macs that are missed, and those among them that hold a permit.
func (p *plan) unavailable() (all, permitted int) {
	for _, m := range p.Machines {
		switch {
		case p.busy(m):
			permitted++
			all++
		case p.away(m):
			all++
		}
	}
	return all, permitted
}

// room reports whether one more Mac may be changed. One that is not Ready takes no
// more away.
func (p *plan) room(m Machine) bool {
	all, permitted := p.unavailable()
	if permitted >= p.max {
		return false
	}
	if m.ReadySince.IsZero() || all < p.max {
		return true
	}
	p.out.Missed = p.missed()
	return false
}

// missed names the Macs that are away.
func (p *plan) missed() []string {
	var names []string
	for _, m := range p.Machines {
		if p.away(m) && !p.busy(m) {
			names = append(names, m.Name)
		}
	}
	return names
}

// heal begins to mend a Mac that was changed behind our back, one at a time.
func (p *plan) heal() {
	for _, m := range p.Machines {
		if p.busy(m) && p.at(m) && m.Drifted {
			return
		}
	}
	for _, m := range p.byMerit() {
		if p.at(m) && m.Drifted && p.free(m) && p.room(m) {
			p.out.Begin = append(p.out.Begin, m.Name)
			return
		}
	}
}

// update begins to change Macs to the revision: one of the canaries at a time,
// then as many as may be unavailable.
func (p *plan) update() {
	if p.out.Halted != "" {
		return
	}
	trial := p.settledCount() < p.canary
	retrying := slices.ContainsFunc(p.Machines, p.retries)
	for _, m := range p.byMerit() {
		if p.at(m) || !p.free(m) || !p.room(m) || retrying && !p.retries(m) {
			continue
		}
		if trial && p.somePermit() {
			return
		}
		p.out.Begin = append(p.out.Begin, m.Name)
	}
}

func (p *plan) settledCount() int {
	n := 0
	for _, m := range p.Machines {
		if p.settled(m) {
			n++
		}
	}
	return n
}

// somePermit reports that some Mac is being changed to the revision.
func (p *plan) somePermit() bool {
	return slices.ContainsFunc(p.Machines, func(m Machine) bool { return p.busy(m) && !(p.at(m) && m.Drifted) })
}

// free reports a Mac whose permit may begin, and when another's may.
func (p *plan) free(m Machine) bool {
	if p.busy(m) || m.Asleep || slices.Contains(p.out.End, m.Name) {
		return false
	}
	if m.Tried != p.Revision {
		return true
	}
	at := NotBefore(m.Failures, m.FailedAt, m.HeldAt)
	if p.Now.Before(at) {
		p.again(at)
		return false
	}
	return true
}

// retries reports a Mac that is given another try of the revision before that counts
// as failed. Until it had that, no other is begun: it may be the revision after all.
func (p *plan) retries(m Machine) bool {
	if m.Tried != p.Revision || m.RetriedAt.IsZero() || m.Failures > 0 || p.at(m) || m.Asleep || m.ReadySince.IsZero() {
		return false
	}
	limit := m.RetriedAt.Add(HeldBackoff + permitLimit) // nobody waits longer for it
	return !m.HeldAt.After(m.RetriedAt) && !m.RetriedAt.After(p.Now) && p.Now.Before(limit)
}

// spoilt reports a Mac that another revision failed on: it is the one to try the next
// on, for one that is as it should be would be lost to that as well.
func (p *plan) spoilt(m Machine) bool {
	return m.Tried != "" && m.Tried != p.Revision && m.Failures > 0 && m.Applied == ""
}

func first(is bool) int {
	if is {
		return 0
	}
	return 1
}

// byMerit are the Machines in the order in which they should be changed: those
// that are well before those that are not, because these say little about a
// revision; what a former revision failed on before those that are as they should be;
// what failed or had its permit last.
func (p *plan) byMerit() []Machine {
	return slices.SortedStableFunc(slices.Values(p.Machines), func(a, b Machine) int {
		return cmp.Or(
			cmp.Compare(unwell(a), unwell(b)),
			cmp.Compare(first(p.spoilt(a)), first(p.spoilt(b))),
			cmp.Compare(p.failures(a), p.failures(b)),
			p.lastPermit(a).Compare(p.lastPermit(b)),
		)
	})
}

func unwell(m Machine) int {
	if m.ReadySince.IsZero() {
		return 1
	}
	return 0
}

func (p *plan) failures(m Machine) int {
	if m.Tried != p.Revision {
		return 0
	}
	return m.Failures
}

// lastPermit matters where the Mac had a permit that came to nothing.
func (p *plan) lastPermit(m Machine) time.Time {
	if m.PermitAt.After(m.ProvedAt) {
		return m.PermitAt
	}
	return time.Time{}
}

// again notes when to look again: at the earliest of all that is noted.
func (p *plan) again(at time.Time) {
	if at.After(p.Now) && (p.out.Again.IsZero() || at.Before(p.out.Again)) {
		p.out.Again = at
	}
}
