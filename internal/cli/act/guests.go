package act

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// manyGuests of a Mac are named; more are counted.
const manyGuests = 8

// end says which Pods end by it, and has Run look whether others came meanwhile.
func (p *Plan) end(m Mac) {
	p.Ends = append(p.Ends, m.Guests...)
	p.guests(m, fate{"that end by this", m.Guests})
}

// await says which Pods it waits for, and which end all the same.
func (p *Plan) await(m Mac) {
	p.Ends = append(p.Ends, m.Staying...)
	waited := slices.DeleteFunc(slices.Clone(m.Guests), func(guest string) bool { return slices.Contains(m.Staying, guest) })
	p.guests(m, fate{"that it waits for", waited}, fate{"of DaemonSets, that it does not wait for and that end by this", m.Staying})
}

// awaitWhereReady is for a Mac that no Machine has: nobody tells here whether its Node is Ready.
func (p *Plan) awaitWhereReady(m Mac) {
	p.Ends = append(p.Ends, m.Guests...)
	p.guests(m, fate{"that end by this, unless their Node is Ready and it waits for them", m.Guests})
}

// goOn says which Pods it leaves alone.
func (p *Plan) goOn(m Mac) { p.guests(m, fate{"that go on running", m.Guests}) }

// fate is what becomes of Pods.
type fate struct {
	of   string
	pods []string
}

// guests says which Pods run on a Mac, and what becomes of them. It is apart from what Run
// compares: Pods come and go.
func (p *Plan) guests(m Mac, fates ...fate) {
	switch {
	case m.Node() == "": // nobody here knows what runs on it
	case m.Hidden != "":
		p.Guests = "which Pods run on it cannot be told: " + m.Hidden
	case len(m.Guests) == 0:
		p.Guests = "no Pod runs on it"
	default:
		var texts []string
		for _, f := range fates {
			if len(f.pods) > 0 {
				texts = append(texts, fmt.Sprintf("Pods %s (%d): %s", f.of, len(f.pods), named(f.pods)))
			}
		}
		p.Guests = strings.Join(texts, "; ")
	}
}

func named(guests []string) string {
	text := strings.Join(guests[:min(len(guests), manyGuests)], ", ")
	if more := len(guests) - manyGuests; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// came are the Pods that end by it now, and were not there when it was agreed to.
func (p Plan) came(agreed Plan) []string {
	return slices.DeleteFunc(slices.Clone(p.Ends), func(guest string) bool { return slices.Contains(agreed.Ends, guest) })
}

// unwell says whether the Mac's Node is known not to be Ready.
func (m Mac) unwell() bool {
	return meta.IsStatusConditionFalse(m.Machine.Status.Conditions, infrav1.NodeReadyCondition)
}
