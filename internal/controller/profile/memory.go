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

// losses remember which guests the Macs of a profile lost after their last turns, by the
// Machines' names.
type losses struct {
	memo.Memo[types.NamespacedName, map[string]loss]
}

// loss is what was seen of one Mac at a time; the zero value: nobody looked. The other times, as
// nanoseconds, are those that it was seen for.
type loss struct {
	at                              time.Time
	permitAt, readySince, downSince int64
	// over: its turn was.
	over bool
	lost int
}

// like reports that both are of the same turn, and that the Node neither went away nor came
// back in between.
func (l loss) like(other loss) bool {
	return l.permitAt == other.permitAt && l.readySince == other.readySince && l.downSince == other.downSince && l.over == other.over
}

// note keeps what was seen of the Macs, and forgets those that are gone.
func (l *losses) note(profile types.NamespacedName, macs []mac) {
	next := make(map[string]loss, len(macs))
	for i := range macs {
		if !macs[i].loss.at.IsZero() {
			next[macs[i].machine.Name] = macs[i].loss
		}
	}
	l.Set(profile, next)
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
