package explain

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// manyMacs of a profile are told of one by one; more are counted.
const manyMacs = 5

// ProfileKinds are what a MacNodeProfile's story is told from.
func ProfileKinds() []snapshot.Kind {
	return []snapshot.Kind{snapshot.Profiles, snapshot.Machines, snapshot.Zones, snapshot.ControlPlanes}
}

// Profile tells a MacNodeProfile's story: that of its rollout.
func Profile(s *snapshot.Snapshot, book reasons.Book, p *infrav1.MacNodeProfile) Story {
	t := newTeller(s, book, "profile", p)
	t.names["PROFILE"] = p.Name
	t.is("what the Macs of a fleet should be, at revision %s", p.Status.Revision)
	t.is("it has %s: %d available, %d at this revision", show.Count(int(p.Status.Machines), "Machine"), p.Status.Available, p.Status.Updated)
	told := map[string]bool{}
	for _, kind := range []string{infrav1.HaltedCondition, infrav1.RolledOutCondition, infrav1.ReadyCondition} {
		c := find(p.Status.Conditions, kind)
		if c == nil || kind == infrav1.HaltedCondition && !show.Unhealthy(*c) || told[c.Reason] {
			continue
		}
		told[c.Reason] = true
		if kind == infrav1.HaltedCondition {
			told[infrav1.ReasonRolloutHalted] = true // the others say no more than that
		}
		when := t.untilMacsAreBack(p, *c)
		if kind == infrav1.HaltedCondition {
			when = haltEnds(t.s, p, *c)
		}
		t.condition("", *c, when, infrav1.RolledOutCondition)
	}
	t.behind(p)
	t.zones(p.Namespace)
	return *t.story
}

// untilMacsAreBack is what a rollout comes to while nothing is heard of some Macs: the others
// go on, and it is done with them alone. Who mends a Mac, its own story says.
func (t *teller) untilMacsAreBack(p *infrav1.MacNodeProfile, c metav1.Condition) next {
	if !slices.Contains([]string{infrav1.ReasonRollingOut, infrav1.ReasonHeld, infrav1.ReasonMacsMissing}, c.Reason) {
		return next{}
	}
	var away []string
	for i := range t.s.Machines {
		if m := &t.s.Machines[i]; profileOf(t.s, m) == p && m.DeletionTimestamp == nil && show.AwayForLong(t.s, m) {
			away = append(away, m.Name)
		}
	}
	if len(away) == 0 {
		return next{}
	}
	who := away[0]
	if more := len(away) - 1; more > 0 {
		who += fmt.Sprintf(" and of %d more", more)
	}
	return next{
		text: "the other Macs go on, at the latest 15 minutes after it went; this does not end while nothing is heard of " + who,
		you:  "see to that Mac, or delete its Machine", commands: []string{fmt.Sprintf("macfleet explain machine %s -n %s", away[0], p.Namespace)},
	}
}

// behind takes up the Macs that are not at the revision.
func (t *teller) behind(p *infrav1.MacNodeProfile) {
	told, left := 0, 0
	for i := range t.s.Machines {
		m := &t.s.Machines[i]
		if m.Namespace != p.Namespace || m.Spec.ProfileRef == nil || m.Spec.ProfileRef.Name != p.Name {
			continue
		}
		c := show.Hindrance(show.Conditions(t.s, m))
		switch {
		case c == nil:
		case told == manyMacs:
			left++
		default:
			t.names["MACHINE"], t.names["HOST"] = m.Name, hostNameOf(m)
			t.condition("machine "+m.Name, *c, t.whenMachine(m, *c).since(show.MachineBegan(t.s, m, *c)), show.MachineConditions()...)
			told++
		}
	}
	if left > 0 {
		t.add(Point{Reason: "More", Means: show.Count(left, "more Machine") + " of it not as it should be", Commands: []string{t.named("macfleet machines -n $NS")}}, reasons.Entry{})
	}
}
