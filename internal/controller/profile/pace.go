package profile

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/memo"
)

const (
	// breath is for how many times as long as a pass took its profile is left alone
	// afterwards: a pass looks at all of its Macs, and in a large fleet that is under way their
	// news come faster than passes end.
	breath = 4
	// longestBreath: nobody waits longer for a turn, however long a pass took.
	longestBreath = 2 * time.Second
)

// pace is when the next pass over each profile may begin.
type pace struct {
	memo.Memo[types.NamespacedName, time.Time]
}

// took notes how long a pass took.
func (p *pace) took(profile types.NamespacedName, began, ended time.Time) {
	p.Set(profile, ended.Add(min(breath*ended.Sub(began), longestBreath)))
}

// wait is how long the profile is left alone; not above zero: no longer.
func (p *pace) wait(profile types.NamespacedName, now time.Time) time.Duration {
	return p.Get(profile).Sub(now)
}
