package profile

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/memo"
)

// proofs remember when this manager first saw what the Machines of a profile have proved,
// by their names. They are lost with the process: then what was proved a moment ago soaks
// once more.
type proofs struct {
	memo.Memo[types.NamespacedName, map[string]proof]
}

// proof is the time that is on record, and when it was first seen.
type proof struct{ recorded, seen time.Time }

// losses remember the guests that Macs lost after their last permits began, by Machine.
type losses struct {
	memo.Memo[types.NamespacedName, loss]
}

// loss is what was seen of one Mac. over: it had no permit any more.
type loss struct {
	permitAt, at time.Time
	lost         int
	over         bool
}

// note takes in what the Machines record, seen now, and forgets those that are gone.
func (p *proofs) note(profile types.NamespacedName, macs []mac, now time.Time) {
	p.Change(profile, func(known *map[string]proof) {
		next := make(map[string]proof, len(macs))
		for i := range macs {
			m := &macs[i].seen
			last := (*known)[m.Name]
			if !last.recorded.Equal(m.ProvedAt) {
				last = proof{m.ProvedAt, now}
			}
			next[m.Name], m.ProvedSeen = last, last.seen
		}
		*known = next
	})
}
