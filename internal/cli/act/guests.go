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
	p.guests(m, "that end by this")
}

// await says which Pods it waits for.
func (p *Plan) await(m Mac) { p.guests(m, "that it waits for") }

// goOn says which Pods it leaves alone.
func (p *Plan) goOn(m Mac) { p.guests(m, "that go on running") }

// guests says which Pods run on a Mac, and what becomes of them. It is apart from what Run
// compares: Pods come and go.
func (p *Plan) guests(m Mac, fate string) {
	switch {
	case m.Node() == "": // nobody here knows what runs on it
	case m.Hidden != "":
		p.Guests = "which Pods run on it cannot be told: " + m.Hidden
	case len(m.Guests) == 0:
		p.Guests = "no Pod runs on it"
	default:
		p.Guests = fmt.Sprintf("Pods %s (%d): %s", fate, len(m.Guests), named(m.Guests))
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
