package machine

import (
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/memo"
)

// reserved is how long a host is left to the Machine that has chosen it. By then the
// cache shows the claim, or it came to nothing.
const reserved = 5 * time.Second

// reservations are the hosts that Machines of this process have just chosen. Until the
// cache shows the claim others would choose the same host, and meet a conflict that
// costs ten requests. Nothing hangs on them: the Host's resourceVersion decides.
type reservations struct {
	clock clock.PassiveClock
	by    memo.Memo[string, reservation]
}

type reservation struct {
	machine client.ObjectKey
	until   time.Time
	// tried is the token that it was reached for with.
	tried string
}

// choose chooses a host that nobody else has reserved, and reserves it.
func (r *reservations) choose(wish host.Requirements, hosts []infrav1.ScalewayAppleSiliconHost, machine client.ObjectKey) (*host.Host, host.Skipped) {
	now := r.clock.Now()
	others := func(has reservation) bool { return has.machine != machine && now.Before(has.until) }
	wish.Reserved = func(name string) bool { return others(r.by.Get(name)) }
	for {
		chosen, skipped := host.Choose(wish, hosts)
		if chosen == nil {
			return nil, skipped
		}
		has := r.by.Change(chosen.Name, func(has *reservation) {
			if !others(*has) {
				*has = reservation{machine: machine, until: now.Add(reserved)}
			}
		})
		if has.machine == machine {
			return chosen, skipped
		}
	}
}

// firstTry reports that this process reaches for the host with this token for the first
// time: then what the cache shows of the host is as good as any reading. Later it may be
// older than our own claim.
func (r *reservations) firstTry(name, token string) (first bool) {
	r.by.Change(name, func(has *reservation) {
		first = has.tried != token
		has.tried = token
	})
	return first
}
